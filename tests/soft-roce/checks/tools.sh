#!/usr/bin/env bash
# Inside the machine: the tools beside run.sh.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

note put greeting hello there
[ "$(note get greeting 1)" = "hello there" ] || fail "a note reads as it was written"
note drop greeting
if note get greeting 1 2> /dev/null; then fail "a note that was taken away can still be read"; fi

# shellcheck disable=SC2016
[ "$(on a sh -c 'echo "$1 $RDMA_HOST_NAME"' sh 'two words')" = "two words a" ] || fail "on: words"
code=0
on a sh -c 'exit 9' || code=$?
[ "$code" -eq 9 ] || fail "on: exit code $code, not 9"

idle=$(rdma-counts)
grep -Eq 'pd [0-9]+ cq [0-9]+ qp [0-9]+' <<< "$idle" || fail "rdma-counts says: $idle"
sent=$(rdma-counter sent_pkts)
rping -s -a "$RDMA_HOST_SELF" -P &
server=$!
until counts=$(rdma-counts) && [ "$counts" != "$idle" ]; do kill -0 "$server"; done
grep -Eq 'cm_id [1-9]' <<< "$counts" || fail "a listener is counted: $counts"
until rdma-counts -- rping -c -a "$RDMA_HOST_SELF" -C 5; do kill -0 "$server"; sleep 0.2; done
[ "$(rdma-counter sent_pkts)" -gt "$sent" ] || fail "rdma-counter sent_pkts stands still"
code=0
# The copy of the listener outlives its parent command.
rdma-counts -- sh -c "rping -s -a $RDMA_HOST_SELF -p 7175 -P > /dev/null 2>&1 & sleep 1" || code=$?
[ "$code" -eq 1 ] || fail "rdma-counts does not see what is left behind ($code)"
if rdma-counter no_such_counter; then fail "a counter that does not exist"; fi
