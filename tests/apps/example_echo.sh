# The echo service, with both sides in one program and in two.
source "$(dirname "$0")/expect.sh"

expect 0 '^connected over shm$' example-echo
grep -qx 'thread' "$work/output" || fail "the last word did not come back"
expect 0 'serve HOST:PORT' example-echo --help
expect 2 'serve HOST:PORT' example-echo --serve
expect 1 'unreachable' example-echo 127.0.0.1:1 hello

serve example-echo --serve 127.0.0.1:0
expect 0 '^second word$' example-echo "$address" first "second word"
CORDMA_TRANSPORT=tcp expect 0 '^connected over tcp$' example-echo "$address" again
expect 1 'example-echo: ' example-echo "$address" "$(head -c 6000 /dev/zero | tr '\0' x)"
expect 0 '^still here$' example-echo "$address" "still here"

# A client that is killed ends its own conversation only.
for transport in shm tcp shm tcp; do
  exec 3< <(CORDMA_TRANSPORT=$transport exec "$programs/example-echo" "$address" $(seq 20000) 2> /dev/null)
  victim=$!
  read -r _ <&3  # its output is buffered in blocks, so after one line it is still running
  kill -9 "$victim"
  exec 3<&-
  CORDMA_TRANSPORT=$transport expect 0 '^still here$' example-echo "$address" "still here"
done
kill -0 "$server" || fail "the service has ended"
