# Timer, TCP sockets and cordma on one thread.
source "$(dirname "$0")/expect.sh"

expect 0 '^client: SOCKETS, TIMERS AND CORDMA$' example-asio_service
grep -q '^timer: tick 1$' "$work/output" || fail "the timer did not tick"
CORDMA_TRANSPORT=tcp expect 0 '^gateway: backend over tcp$' example-asio_service
expect 0 'PORT' example-asio_service --help
expect 2 'PORT' example-asio_service --nonsense
