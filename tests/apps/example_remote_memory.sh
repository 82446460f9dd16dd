# Remote memory: the owner and the user in one program, and in two, over both transports.
source "$(dirname "$0")/expect.sh"

expect 0 'owner: the counter is 30, the text is "written from afar"' example-remote_memory
expect 0 'user: beyond the end: .*leaves the remote memory' example-remote_memory
expect 0 'own HOST:PORT' example-remote_memory --help
for transport in shm tcp; do
  serve example-remote_memory --own 127.0.0.1:0
  CORDMA_TRANSPORT=$transport expect 0 'user: the counter was 20' example-remote_memory "$address"
  wait "$server" || fail "the owner did not end well"
  grep -q 'owner: the counter is 30' "$work/served" || fail "the owner did not see the counter"
done
