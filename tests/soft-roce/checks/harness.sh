#!/usr/bin/env bash
# Checks the documented behaviour of run.sh and cases.sh: harness.sh CHECK
set -euo pipefail
checks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
roce=$(dirname "$checks")
work=$(mktemp -d)
unset SOFT_ROCE_ONLY  # a choice of cases is not meant for these checks
trap 'rm -rf "$work"' EXIT

fail() {
  echo "harness.sh: ERROR: $*" >&2
  tail -n 100 "$work/out" "$work/err" >&2
  exit 1
}
# ends CODE SCRIPT ARGUMENT...: it must end with CODE; its streams are then in $work/out and
# $work/err. The check is skipped if no machine is possible.
ends() {
  local code=$1 script=$2 got=0
  shift 2
  bash "$roce/$script" "$@" > "$work/out" 2> "$work/err" || got=$?
  [ "$got" -ne 77 ] || [ "$code" -eq 77 ] || { cat "$work/err"; exit 77; }
  [ "$got" -eq "$code" ] || fail "$script $* ended with $got, not $code"
}
says() { grep -Eq -e "$2" "$work/$1" || fail "no line like '$2' on $1"; }  # says STREAM REGEX

options() {
  ends 0 run.sh --help
  says out '--netem RULE'
  ends 125 run.sh
  says err 'no command'
  ends 125 run.sh --nonsense
  says err "unknown option '--nonsense'"
  ends 125 run.sh --timeout soon -- true
  says err "needs a number of at least 1, not 'soon'"
  ends 125 run.sh --hosts 2 -- true
  says err 'COMMAND_B'
  ends 125 run.sh --netem 'loss 1%' -- true
  says err 'needs --hosts 2'
  ends 125 run.sh --env a-b -- true
  says err "needs the name of a variable, not 'a-b'"
  ends 125 run.sh --share /proc/nope -- true
  says err '^soft-roce: --share: /proc/nope cannot be written$'
  ends 125 run.sh --log "$work/nowhere/log" -- true
  says err '^soft-roce: --log: .* cannot be written$'
  TMPDIR=/proc ends 125 run.sh -- true
  says err '^soft-roce: no folder can be made in /proc'
}

skip() {
  XDG_CACHE_HOME=/proc/nope ends 125 run.sh --offline -- true
  says err '^soft-roce: the images. folder, /proc/nope/.* cannot be written'
  mkdir -p "$work/cordma/soft-roce"
  echo damaged > "$work/cordma/soft-roce/kernel-1.deb"
  XDG_CACHE_HOME=$work ends 125 run.sh --offline -- true
  says err '^soft-roce: .*kernel-1.deb is damaged'
  XDG_CACHE_HOME=$work ends 77 run.sh --offline -- true
  says err 'soft-roce: skipped: .*run.sh --prepare'
  echo 'check one 5 true' > "$work/cases"
  XDG_CACHE_HOME=$work ends 77 cases.sh run "$work/cases" "$work/results" --offline
  ends 77 cases.sh result "$work/results" one
  says out 'soft-roce: skipped'
}

exit_code() {
  cd "$checks"
  export CORDMA_TEST_WORD='two words' OTHER_WORD=other
  mkdir "$work/share"
  # shellcheck disable=SC2016
  ends 7 run.sh --offline --env OTHER_WORD --share "$work/share" --log "$work/kernel" -- bash -c '
    echo "$PWD|$CORDMA_TEST_WORD|$OTHER_WORD|$1"
    echo settings: "${!CORDMA_@}"  # the machine adds none: a program would report them as unknown
    echo to stderr >&2
    echo kept > "$SOFT_ROCE_SHARE/kept"
    head -c 3000000 /dev/zero | tr "\0" "x"; echo
    echo a word to the kernel > /dev/kmsg
    sleep 1000 &
    exit 7' bash 'an argument'
  says out "^${checks}[|]two words[|]other[|]an argument$"
  says out "^settings: ${!CORDMA_*}$"
  says err '^to stderr$'
  says err 'soft-roce: the command ended with 7'
  says err 'a word to the kernel'
  says err "the kernel's log"
  [ "$(wc -c < "$work/out")" -gt 3000000 ] || fail "not all of the output came out"
  [ "$(cat "$work/share/kept")" = kept ] || fail "nothing on the share"
  grep -q 'a word to the kernel' "$work/kernel" || fail "--log does not hold the log"
}

hang() {
  ends 124 run.sh --offline --timeout 2 -- bash -c 'echo begun; sleep 987'
  says out '^begun$'
  says err 'it took more than 2 s'
  ! grep 'no verdict' "$work/err" || fail "a time limit is a verdict"
  says err 'sleep 987'
}

broken_machine() {
  SOFT_ROCE_BOOT_LIMIT=30 ends 125 run.sh --offline --memory 24 -- true
  says err 'the machine broke down; .*--memory 24'
  says err '^soft-roce: no verdict: the machine'
  ends 125 run.sh --offline -- bash -c 'exit 125'
  says err 'the command ended with 125'
  ! grep 'no verdict' "$work/err" || fail "a command's own 125 is its verdict"
  ends 125 run.sh --offline -- bash -c 'echo begun; echo c > /proc/sysrq-trigger'
  says out '^begun$'
  says err 'sysrq triggered crash'
}

cases() {
  cat > "$work/cases" << 'TEXT'
check good 20 echo 'two  spaces'
check bad 20 bash -c 'echo said; echo the kernel heard > /dev/kmsg; exit 3'
check slow 2 sleep 100
check leaves_a_process 20 bash -c 'sleep 654 & exit 0'
check nothing_is_left 20 bash -c '! pgrep -f "[s]leep 654"'
check says_125 20 bash -c 'exit 125'
check unusable 20 bash -c 'echo because; exit 77'
check fatal 20 bash -c 'echo c > /proc/sysrq-trigger'
check after 20 true
TEXT
  ends 1 cases.sh run "$work/cases" "$work/results" --offline
  says out '^bad: 3,'
  says err 'failed before that: .*/bad[.]code .*/says_125[.]code .*/slow[.]code$'
  ends 0 cases.sh result "$work/results" good
  says out '^two  spaces$'
  ends 3 cases.sh result "$work/results" bad
  says out '^said$'
  says out 'the kernel heard'
  ends 124 cases.sh result "$work/results" slow
  says out 'sleep 100'
  ! grep 'the kernel heard' "$work/out" || fail "the log of another case"
  ends 125 cases.sh result "$work/results" says_125
  ! grep 'broke down' "$work/out" || fail "a case's own 125 is its verdict"
  ends 0 cases.sh result "$work/results" nothing_is_left
  ends 77 cases.sh result "$work/results" unusable
  ends 125 cases.sh result "$work/results" fatal
  says out '^soft-roce: the machine broke down'
  ends 125 cases.sh result "$work/results" after

  # No case failed, so the machine has to be started once more.
  sed -n '/^check good\|^check fatal/p' "$work/cases" > "$work/broken"
  ends 125 cases.sh run "$work/broken" "$work/results" --offline
  says out '^good: 0,'
  says err '^soft-roce: no verdict: the machine'
  says err 'Kernel panic'
  ! grep 'failed before that' "$work/err" || fail "no case had failed"
}

two_hosts() {
  ends 5 run.sh --offline --hosts 2 --netem 'loss 2% delay 1ms' --timeout 180 \
    -- bash "$checks/two_hosts_a.sh" -- bash "$checks/two_hosts_b.sh"
  says out '^a[|] .*packets lost on the way from a: [1-9]'
  says err 'the command of host a ended with 77'  # a failure takes precedence over this
  says err 'the command of host b ended with 5'
  grep '65536' "$work/out"
}

"$1"
