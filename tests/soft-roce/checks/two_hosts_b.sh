#!/usr/bin/env bash
# On host b: the servers that two_hosts_a.sh connects to.
set -euo pipefail
ib_write_bw -d "$RDMA_DEVICE" -x 1 -n 10 &
until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.1; done
barrier listening
wait "$!"
# A client retries if the lossy wire broke its connection: one server therefore accepts any number
# of clients.
for address in RDMA_HOST_SELF RDMA_HOST_SELF_V6; do
  rping -s -P -a "${!address}" &
  note get "done-$address"
  kill "$!"
done
note get over 120
exit 5
