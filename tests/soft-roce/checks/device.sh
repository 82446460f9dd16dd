#!/usr/bin/env bash
# Inside the machine: rxe0 is up, with an address of each family.
set -euo pipefail
ibv_devinfo -d "$RDMA_DEVICE" -v > /tmp/devinfo
grep -q 'state:.*PORT_ACTIVE' /tmp/devinfo
grep -q 'active_mtu:.*4096' /tmp/devinfo
grep -Eq "GID.*::ffff:$RDMA_HOST_SELF, RoCE v2" /tmp/devinfo
grep -Eq 'GID.*fd77::1, RoCE v2' /tmp/devinfo
[ "$(ulimit -l)" = unlimited ]
grep GID /tmp/devinfo
