#!/usr/bin/env bash
# On host a: verbs and rdma_cm over a wire that loses packets, then a wire that goes down.
set -euo pipefail
barrier listening
ib_write_bw -d "$RDMA_DEVICE" -x 1 -n 50 "$RDMA_HOST_PEER"
for address in RDMA_HOST_PEER RDMA_HOST_PEER_V6; do
  until rping -c -a "${!address}" -C 20; do sleep 0.2; done  # refused until the server listens
  note put "done-$address"
done
lost=$(tc -s qdisc show dev wire0 | sed -n 's/.*dropped \([0-9]*\).*/\1/p')
echo "packets lost on the way from a: $lost"
[ "$lost" -gt 0 ] || { echo "FAILED: netem lost nothing" >&2; exit 1; }

on b ip link set wire0 down
on b cat /sys/class/net/wire0/operstate | grep -x down
if timeout 20 rping -c -a "$RDMA_HOST_PEER" -C 1; then
  echo "FAILED: a connection over a wire that is down" >&2
  exit 1
fi
note put over
