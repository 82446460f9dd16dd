# cordma-pstack: the coroutines of a live process and of its core dump, of 10,000 that wait, and of
# a stripped program.
source "$(dirname "$0")/expect.sh"

command -v gdb > /dev/null || { echo "SKIPPED: gdb is not installed"; exit 77; }

# hang ARGUMENT...: starts the example in the background and waits until it hangs; sets `server`.
hang() {
  local program=$1
  shift
  "$program" "$@" > "$work/hangs" 2> "$work/errors" &
  server=$!
  background+=("$server")
  until grep -q '^hanging$' "$work/hangs"; do
    kill -0 "$server" || fail "$program has ended: $(cat "$work/errors")"
    sleep 0.05
  done
  # The process sleeps once every coroutine has reached the point where it waits.
  until grep -q '^State:.*sleeping' "/proc/$server/status"; do sleep 0.05; done
}

chains() {
  grep -Eq 'waits: .*wait_for_event at examples/hangs.cpp:[0-9]+' "$work/output" || show 'the event'
  grep -Eq '   in: .*prepare at examples/hangs.cpp:[0-9]+' "$work/output" || show 'its caller'
  grep -Eq 'waits: .*wait_for_message at examples/hangs.cpp:[0-9]+' "$work/output" || show 'the message'
  grep -Eq '   in: .*hang at examples/hangs.cpp:[0-9]+' "$work/output" || show 'the first coroutine'
}
show() { cat "$work/output" >&2; fail "$1 is missing"; }

hang "$programs/example-hangs"
expect 0 'reactor 0x[0-9a-f]+ on thread '"$server"': [0-9]+ tasks' cordma-pstack "$server"
chains
kill -0 "$server" || fail "the process has ended"

# The signal prints the same.
kill -USR1 "$server"
until grep -q 'tasks: ' "$work/errors"; do sleep 0.05; done
cp "$work/errors" "$work/output"
until grep -q 'waits: .*wait_for_message' "$work/errors"; do sleep 0.05; done
cp "$work/errors" "$work/output"
chains
grep -q 'the oldest a recv of' "$work/output" || show 'the oldest request'

# A core dump, with the program's name from the dump and from the command line.
gdb -nx -batch -p "$server" -ex "generate-core-file $work/core" > /dev/null 2>&1 || true
[ -s "$work/core" ] || fail "gdb made no core dump"
kill -9 "$server"
expect 0 "$programs/example-hangs: 1 reactors" cordma-pstack "$work/core"
chains
expect 0 '1 reactors' cordma-pstack "$work/core" "$programs/example-hangs"

# A stripped program: an error message, and no frames.
strip -o "$work/stripped" "$programs/example-hangs"
hang "$work/stripped"
expect 1 'stripped has no symbol cordma_stack_layout: it is stripped' cordma-pstack "$server"
! grep -q 'waits:' "$work/output" || show 'silence'
gdb -nx -batch -p "$server" -ex "generate-core-file $work/core" > /dev/null 2>&1 || true
kill -9 "$server"
expect 1 'stripped has no symbol cordma_stack_layout: it is stripped' cordma-pstack "$work/core"
! grep -q 'waits:' "$work/output" || show 'silence'

# 10,000 coroutines; the times are printed and not checked.
hang "$programs/example-hangs" --tasks 10000
expect 0 'wait_for_event .*\(10000 tasks alike\)' cordma-pstack --times "$server"
sed -n '/^stopped for/p' "$work/output"
kill -9 "$server"

expect 1 'there is no process 999999999' cordma-pstack 999999999
expect 1 'neither a process nor a core dump' cordma-pstack "$programs/cordma-pstack"
expect 1 'No such file' cordma-pstack "$work/missing"
# Truncated core dumps, and another program than the one that dumped core.
hang "$programs/example-hangs"
gdb -nx -batch -p "$server" -ex "generate-core-file $work/core" > /dev/null 2>&1 || true
kill -9 "$server"
for bytes in 63 64 100 500 5000; do
  head -c "$bytes" "$work/core" > "$work/cut"
  expect 1 'cordma-pstack: .*(damaged|neither a process|does not name|core dump)' cordma-pstack "$work/cut"
done
{ head -c 32 "$work/core"; printf '\377%.0s' 1 2 3 4 5 6 7 8; tail -c +41 "$work/core"; } > "$work/bent"
expect 1 'bent is damaged, or not a whole core dump' cordma-pstack "$work/bent"
expect 1 'is not the program that made it|has version|make no sense' cordma-pstack "$work/core" "$programs/example-echo"

expect 2 '^Usage: ' cordma-pstack
expect 2 '^Usage: ' cordma-pstack --bogus
expect 2 '^Usage: ' cordma-pstack ''
expect 0 '^Usage: ' cordma-pstack --help
