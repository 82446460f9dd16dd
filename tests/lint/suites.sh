#!/usr/bin/env bash
# suites.sh SOURCES: .ci/run and tests/all.sh with stubs for their parts. Checks order, tables, exit
# codes, the skipped newcomer test, and that results of another commit do not count.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/output" >&2; printf 'FAILED: %s\n' "$*" >&2; exit 1; }

copy=$work/copy
mkdir -p "$copy/.ci" "$copy/tests/newcomer"
cp "$1/.ci/run" "$copy/.ci/"
cp "$1/tests/all.sh" "$copy/tests/"
cd "$copy"
# A stub prints its arguments, and exits with the code in the file of its name, or with 0.
for part in run.sh builds.sh newcomer/run.sh; do
  name=${part//\//-}
  printf '#!/usr/bin/env bash\necho "stub %s $* ${CORDMA_GATE_TURN-}"\necho "100%% tests passed, 0 tests failed out of 5"\n' "$name" > "tests/$part"
  printf 'exit "$(cat "%s/%s" 2> /dev/null || echo 0)"\n' "$work" "$name" >> "tests/$part"
done
save() { git add -A && git -c user.name=test -c user.email=test@localhost commit -qm "$1" --allow-empty; }
git init -q .
echo /build-all > .gitignore
save one

# ends CODE COMMAND...: it exits with CODE.
ends() {
  local code=$1 got=0
  shift
  env -u CI -u CORDMA_GATE_TURN "$@" > "$work/output" 2>&1 || got=$?
  [ $got -eq "$code" ] || fail "$* exited with $got, not $code"
}
printed() { grep -Eq -e "$1" "$work/output" || fail "no line like: $1"; }

for turn in 0 1 2 3 4 5 6; do
  ends 0 CORDMA_GATE_TURN=$turn bash .ci/run
  head -n 1 "$work/output" | grep -q "^gate: the long variant is tests/run.sh --.*turn $turn of 0 to 6" || fail "turn $turn: the first line"
  printed '^ +[0-9]+ s  passed  tests/run.sh --build-only$'
  printed '^stub run.sh --build-only $'
  case $turn in
    [246]) printed '^ +[0-9]+ s  passed  tests/run.sh --tier host$' ;;
    *) printed '^ +[0-9]+ s  passed  tests/run.sh --tier host,core$' ;;
  esac
  printed '^ +[0-9]+ s  passed  tests/newcomer/run.sh --quick$'
done
ends 2 CORDMA_GATE_TURN=7 bash .ci/run
ends 2 CORDMA_GATE_TURN=08 bash .ci/run
[ "$(wc -l < "$work/output")" -eq 1 ] || fail "more than one line"
ends 2 bash .ci/run --nonsense
ends 0 bash .ci/run --help

echo 77 > "$work/newcomer-run.sh"
ends 0 bash .ci/run
printed '^ +[0-9]+ s  skipped  tests/newcomer/run.sh --quick$'
ends 0 bash tests/all.sh
printed '^newcomer +skipped '
echo 1 > "$work/newcomer-run.sh"
ends 1 bash .ci/run
printed '^FAILED: tests/newcomer/run.sh --quick$'
echo 1 > "$work/builds.sh"
ends 1 bash tests/all.sh
printed '^builds +FAILED '
printed '^newcomer +FAILED '
rm "$work"/*.sh

ends 0 bash tests/all.sh --from builds
printed '^clang +passed .* 10 tests, 0 failed, 0 skipped'
printed '^newcomer +passed '
ends 0 bash tests/all.sh --only gcc
echo changed > README.md
ends 1 bash tests/all.sh --from tsan
printed '^tsan +passed .*-dirty$'
printed '^not run on .*-dirty: clang gcc asan fuzz$'
save two
ends 1 bash tests/all.sh --from tsan
printed '^not run on [^ ]*: clang gcc asan fuzz$'
ends 2 bash tests/all.sh --from nothing
ends 0 bash tests/all.sh --list
