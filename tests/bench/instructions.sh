# No path takes more instructions than the committed baseline states, and the check detects one that
# does. Usage: instructions.sh PROGRAM BASELINE
set -euo pipefail
program=$1 baseline=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# Exit status 77 skips the test: instructions cannot be counted here or compared with that baseline.
"$program" --baseline "$baseline" || exit

# expect CODE REGEX ARGUMENT...: the program exits with CODE and prints a line that matches.
expect() {
  local code=$1 regex=$2 got=0
  shift 2
  "$program" "$@" > "$work/output" 2>&1 || got=$?
  if [ "$got" -ne "$code" ] || ! grep -Eq -e "$regex" "$work/output"; then
    cat "$work/output" >&2
    fail "$* ended with $got, not $code, or printed no line like: $regex"
  fi
}

# altered WHAT FACTOR FILE: writes the baseline with the median or mean of shm.idle_turn multiplied.
altered() {
  python3 - "$baseline" "$1" "$2" > "$3" <<'PYTHON'
import json
import sys

tally = json.load(open(sys.argv[1]))
tally["instructions_per_operation"]["shm.idle_turn"][sys.argv[2]] *= float(sys.argv[3])
json.dump(tally, sys.stdout)
PYTHON
}

one=(--only '^shm\.idle_turn$' --baseline "$work/baseline.json")
altered median 0.8 "$work/baseline.json"
expect 1 '^shm\.idle_turn .*\+[0-9.]+ % +LONGER$' "${one[@]}"
expect 1 'commit a new baseline' "${one[@]}"
expect 0 '^shm\.idle_turn' "${one[@]}" --tolerance 30
altered median 1.25 "$work/baseline.json"
expect 0 '^shm\.idle_turn .*-[0-9.]+ % +better: commit a new baseline$' "${one[@]}"

# A path that is longer in some rounds only is detected by the mean.
altered mean 0.8 "$work/baseline.json"
expect 1 '^shm\.idle_turn .*LONGER in the mean: .*\+[0-9.]+ %$' "${one[@]}"

sed 's/"shm.idle_turn"/"shm.gone"/' "$baseline" > "$work/baseline.json"
expect 1 '^shm\.idle_turn .*NOT IN THE BASELINE$' "${one[@]}"
expect 1 'has paths that are not counted any more: shm\.gone$' --baseline "$work/baseline.json"
expect 1 'commit a new baseline.*--help has the command' --baseline "$work/baseline.json"
sed 's/"compiler": "[^"]*"/"compiler": "Elbrus 1.26"/' "$baseline" > "$work/baseline.json"
expect 77 'says nothing about this build: compiler Elbrus 1.26 there' "${one[@]}"
cp "$baseline" "$work/baseline.json"
expect 77 'says nothing about this build: rounds 3 there and 4 here' "${one[@]}" --rounds 4
echo '{}' > "$work/baseline.json"
expect 1 'the baseline .*date' "${one[@]}"

expect 2 "no path is called 'nothing'" --only nothing
expect 2 'is no regular expression' --only '('
expect 2 'requires --baseline' --tolerance 3
expect 2 'File does not exist' --baseline "$work/nothing.json"
expect 0 '^tcp\.read_64 ' --list
