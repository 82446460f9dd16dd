# A timer, TCP sockets and cordma on one thread.
source "$(dirname "$0")/expect.sh"

expect 0 '^client: SOCKETS, TIMERS AND CORDMA$' example-asio_service
grep -q '^timer: tick 1$' "$work/output" || fail "the timer did not tick"
CORDMA_TRANSPORT=tcp expect 0 '^gateway: backend over tcp$' example-asio_service
expect 0 'PORT' example-asio_service --help
expect 2 'PORT' example-asio_service --nonsense
expect 2 'is no port' example-asio_service 12x
expect 2 'is no port' example-asio_service 70000

# A client that sends an overlong line is disconnected, and the next one is served.
serve example-asio_service 0
for _ in 1 2; do
  exec 3<> "/dev/tcp/${address/://}"
  head -c 6000 /dev/zero | tr '\0' x >&3
  read -r -N 1 _ <&3 && fail "a line that is too long was answered"
  exec 3<&- 3>&-
  exec 3<> "/dev/tcp/${address/://}"
  printf 'hello\n' >&3
  read -r answer <&3
  [ "$answer" = HELLO ] || fail "after a bad client the service answers '$answer'"
  exec 3<&- 3>&-
done
kill -0 "$server" || fail "the service has ended"
