#!/usr/bin/env bash
# Inside the machine: rdma_cm connects rxe0 with itself over the address in the variable $1.
set -euo pipefail
address=${!1}
rping -s -a "$address" -C 5 -v &
server=$!
until rping -c -a "$address" -C 5 -v; do  # refused until the server listens
  kill -0 "$server"
  sleep 0.2
done
wait "$server"
