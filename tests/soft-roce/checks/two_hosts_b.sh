#!/usr/bin/env bash
# On host b: what two_hosts_a.sh connects to.
set -euo pipefail
ib_write_bw -d "$RDMA_DEVICE" -x 1 -n 50 &
until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.1; done
barrier listening
wait "$!"
rping -s -a "$RDMA_HOST_SELF" -C 20
note get done-RDMA_HOST_PEER
rping -s -a "$RDMA_HOST_SELF_V6" -C 20
note get done-RDMA_HOST_PEER_V6
note get over 120
exit 5
