# Sourced by the scripts beside it: runs programs and checks their output.
set -euo pipefail
rounds=${CORDMA_TEST_ROUNDS-all}
unset CORDMA_TEST_ROUNDS  # read by cordma's tests only; the programs would warn about it on stderr
programs=$1
work=$(mktemp -d)
background=()
under=()  # command and arguments that start the programs; empty: the shell does
cleanup() {
  local process
  for process in "${background[@]}"; do kill "$process" 2> /dev/null || true; done
  chmod -R u+rwX "$work" 2> /dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# fill FILE BYTES: creates a file without repeated content. Random bytes would take emulated
# processors seconds.
fill() {
  seq 10000000 $((10000000 + $2 / 9)) > "$1"  # 9 bytes a line
  truncate -s "$2" "$1"
}
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# expect CODE REGEX PROGRAM ARGUMENT...: the program exits with CODE and prints, on either stream, a
# line that matches.
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

# serve PROGRAM ARGUMENT...: starts it in the background with this standard input; sets `address`
# once it listens.
serve() {
  local program=$1 waited=0
  shift
  : > "$work/served"  # cleared before the start, so that the output below is from this server
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
