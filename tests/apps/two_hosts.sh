# Sourced after expect.sh by scripts that run on two machines at once, with a daemon on b.

daemon() {  # daemon NAME: serves the folder `box`, and leaves its port for host a in the note NAME
  serve cordma-cpd --listen "$RDMA_HOST_SELF:0" --module-rw "box=$box" --transport verbs
  note put "$1" "${address##*:}"
}
lost_packets() {  # prints how many packets netem lost on the way from this host; fails if none
  local lost
  lost=$(tc -s qdisc show dev "$RDMA_NETDEV" | sed -n 's/.*dropped \([0-9]*\).*/\1/p')
  echo "packets lost on the way from $RDMA_HOST_NAME: $lost"
  [ "$lost" -gt 0 ] || fail "netem lost nothing"
}
