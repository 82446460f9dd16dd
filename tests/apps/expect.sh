# Sourced by the scripts beside it: running programs and looking at what they said.
set -euo pipefail
rounds=${CORDMA_TEST_ROUNDS-all}
unset CORDMA_TEST_ROUNDS  # of cordma's own tests: the programs would say on stderr that they don't know it
programs=$1
work=$(mktemp -d)
background=()
under=()  # what programs are started by, where it is not the shell: a command and its arguments
cleanup() {
  local process
  for process in "${background[@]}"; do kill "$process" 2> /dev/null || true; done
  chmod -R u+rwX "$work" 2> /dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# fill FILE BYTES: no two parts of it are the same. Random bytes would take emulated processors seconds.
fill() {
  seq 10000000 $((10000000 + $2 / 9)) > "$1"  # 9 bytes a line
  truncate -s "$2" "$1"
}
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# expect CODE REGEX PROGRAM ARGUMENT...: it ends with CODE and prints, on either stream, a line that
# matches.
expect() {
  local code=$1 regex=$2 program=$3 got=0
  shift 3
  timeout 120 "${under[@]}" "$programs/$program" "$@" > "$work/output" 2>&1 || got=$?
  if [ "$got" -ne "$code" ]; then
    cat "$work/output" >&2
    fail "$program $* ended with $got, not $code"
  fi
  if ! grep -Eq -e "$regex" "$work/output"; then
    cat "$work/output" >&2
    fail "$program $* printed no line like: $regex"
  fi
}

# serve PROGRAM ARGUMENT...: starts it in the background, with this input; sets `address` once it listens.
serve() {
  local program=$1 waited=0
  shift
  : > "$work/served"  # before it starts: what is read below is this one's
  "${under[@]}" "$programs/$program" "$@" <&0 >> "$work/served" 2>&1 &
  server=$!
  background+=("$server")
  until address=$(sed -n 's/^listening on //p' "$work/served") && [ -n "$address" ]; do
    if ! kill -0 "$server" 2> /dev/null || [ $((waited += 1)) -gt 600 ]; then
      cat "$work/served" >&2
      fail "$program $* does not listen"
    fi
    sleep 0.05
  done
}
