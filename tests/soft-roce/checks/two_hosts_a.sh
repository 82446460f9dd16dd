#!/usr/bin/env bash
# On host a: verbs and rdma_cm over a wire that loses packets, then a wire that goes down.
set -euo pipefail
barrier listening
ib_write_bw -d "$RDMA_DEVICE" -x 1 -n 10 "$RDMA_HOST_PEER"
for end in '' _V6; do
  address=RDMA_HOST_PEER$end
  # Refused until the server listens; the lossy wire may also break it.
  until timeout 20 rping -c -a "${!address}" -C 5; do sleep 0.2; done
  note put "done-RDMA_HOST_SELF$end"
done
lost=$(tc -s qdisc show dev wire0 | sed -n 's/.*dropped \([0-9]*\).*/\1/p')
echo "packets lost on the way from a: $lost"
[ "$lost" -gt 0 ] || { echo "FAILED: netem lost nothing" >&2; exit 1; }

on b ip link set wire0 down
on b cat /sys/class/net/wire0/operstate | grep -x down
if timeout 5 rping -c -a "$RDMA_HOST_PEER" -C 1; then
  echo "FAILED: a connection over a wire that is down" >&2
  exit 1
fi
note put over
exit 77
