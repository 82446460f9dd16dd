#!/usr/bin/env bash
# On host b: what two_hosts_a.sh connects to.
set -euo pipefail
ib_write_bw -d "$RDMA_DEVICE" -x 1 -n 10 &
until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.1; done
barrier listening
wait "$!"
# A client whose connection broke on the lossy wire tries again: so one server for as many as come.
for address in RDMA_HOST_SELF RDMA_HOST_SELF_V6; do
  rping -s -P -a "${!address}" &
  note get "done-$address"
  kill "$!"
done
note get over 120
exit 5
