#!/usr/bin/env bash
# Inside the machine: raw_peer.sh PROGRAM [OPTION]: the plain verbs program $1 against itself, every operation.
set -euo pipefail
program=$1
shift
work=$(mktemp -d)
pair() {  # pair ADDRESS OPTION...
  local address=$1 server
  shift
  : > "$work/served"
  "$program" --serve ${event:+"$event"} >> "$work/served" &
  server=$!
  until grep -q '^listening' "$work/served"; do kill -0 "$server"; sleep 0.05; done
  "$program" ${event:+"$event"} "$@" "$address"
  wait "$server"
  grep '^served' "$work/served"
}
for event in "$@"; do
  [ "$event" != --poll ] || event=''
  for op in send write read write_imm fetch_add swap; do
    pair "$RDMA_HOST_SELF" --op "$op" --count 100 --size 1000
  done
  pair "$RDMA_HOST_SELF_V6" --op send --count 20 --size 100000
  pair "$RDMA_HOST_SELF" --op write_imm --count 10 --size 0
done
