#!/usr/bin/env bash
# Inside the machine: perftest's program $1, with the options that follow, between rxe0 and itself.
set -euo pipefail
run=("$@" -d "$RDMA_DEVICE" -x 1 -n 200)
"${run[@]}" > /dev/null &
server=$!
until "${run[@]}" "$RDMA_HOST_SELF"; do  # refused until the server listens
  kill -0 "$server"
  sleep 0.2
done
wait "$server"
