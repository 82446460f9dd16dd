#!/usr/bin/env bash
# Many commands in one boot, each with a separate result. See --help.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
bash tests/soft-roce/cases.sh run CASES RESULTS [options of run.sh]
bash tests/soft-roce/cases.sh result RESULTS NAME

run boots one machine and runs all cases of the file CASES there, one after the other. CASES is shell text,
a line per case:
  check NAME SECONDS COMMAND...
A case that takes more than SECONDS is stopped, and whatever a case leaves running ends with it. The folder
RESULTS then holds NAME.out (both streams, and what the kernel said if the case failed) and NAME.code.
run prints how long each case took, and at its end the ten slowest. It exits with 0 when every case ran, failed or
not; with 1 when the machine broke down after a case had failed; else as run.sh exits. With SOFT_ROCE_ONLY=REGEX in
the environment only the cases whose names match run.

result prints the output of a case and ends with its code: 124 for a case that was stopped, 77 where the
machine could not be had, 125 where the machine broke down before the case had ended.
TEXT
}
fail() { printf 'cases.sh: %s\n' "$*" >&2; exit 125; }

check() {  # check NAME SECONDS COMMAND...
  local name=$1 limit=$2 code=0 started=${EPOCHREALTIME/./}
  shift 2
  [[ $name =~ ${SOFT_ROCE_ONLY-} ]] || return 0
  [ ! -e "$results/$name.out" ] || { duplicates+=("$name"); return 0; }
  echo "soft-roce case: $name" > /dev/kmsg
  contained "$limit" "$@" > "$results/$name.out" 2>&1 || code=$?
  if [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then
    {
      echo "the kernel's log of this case:"
      dmesg | tac | sed "/soft-roce case: $name\$/q" | tac
    } >> "$results/$name.out"
  fi
  echo "$code" > "$results/$name.code"
  local tenths=$(((${EPOCHREALTIME/./} - started) / 100000))
  times+=("$((tenths / 10)).$((tenths % 10)) s: $name")
  echo "$name: $code, ${times[-1]%:*}"
}

case ${1-} in
  run)
    [ $# -ge 3 ] || fail "run takes CASES and RESULTS; --help tells more"
    [ -r "$2" ] || fail "cannot read $2"
    cases=$(realpath "$2") results=$3
    shift 3
    rm -rf "$results" || fail "cannot empty $results"
    mkdir -p "$results" || fail "cannot make $results"
    results=$(realpath "$results")
    code=0
    bash "$here/run.sh" --share "$results" "$@" -- \
      bash "$here/cases.sh" inside "$cases" "$results" 2> >(tee "$results/run.err" >&2) || code=$?
    [ "$code" -ne 77 ] || touch "$results/skipped"
    # A failed case is final: another boot must not hide it.
    failed=$(grep -sLxE '0|77' "$results"/*.code)  # grep -L exits with 0 even if it lists no file
    if [ "$code" -ne 0 ] && [ -n "$failed" ]; then
      printf 'cases.sh: failed before that: %s\n' "${failed//$'\n'/ }" >&2
      code=1
    fi
    exit "$code"
    ;;
  inside)
    cases=$2 results=$3 duplicates=() times=()
    # shellcheck source=tests/soft-roce/guest/contained.sh
    . "$here/guest/contained.sh"
    # shellcheck source=/dev/null
    . "$cases"
    [ ${#duplicates[@]} -eq 0 ] || fail "cases of the same name: ${duplicates[*]}"
    echo "${#times[@]} cases in $SECONDS s; the slowest:"
    printf '%s\n' "${times[@]}" | sort -rg | head -n 10
    exit 0
    ;;
  result)
    [ $# -eq 3 ] || fail "result takes RESULTS and NAME"
    [ ! -e "$2/skipped" ] || { cat "$2/run.err"; exit 77; }
    [ -e "$2/$3.out" ] || fail "the case $3 has not run; see cases.sh run"
    cat "$2/$3.out"
    [ ! -e "$2/$3.code" ] || exit "$(cat "$2/$3.code")"
    printf '\nsoft-roce: the machine broke down before the end of this case\n'
    exit 125
    ;;
  --help | -h) usage ;;
  *) fail "'${1-}' is neither run nor result; --help tells more" ;;
esac
