# Rounds over a wire that loses packets, all in one boot: a tree of 10 MB is copied to the other
# machine and back, and every byte is compared. Runs on both machines: the files are on a, and the
# daemon is on b. PROGRAMS ROUNDS; CORDMA_TEST_ROUNDS=all sets 100 rounds. A failed round is
# reported, and the others continue.
many=${CORDMA_TEST_ROUNDS-few}
source "$(dirname "$0")/expect.sh"
source "$(dirname "$0")/two_hosts.sh"
[ "$many" != all ] || set -- "$1" 100
tree=$work/tree box=$work/box back=$work/back

if [ "$RDMA_HOST_NAME" = b ]; then
  mkdir "$box"
  note put box "$box"
  daemon port
  note get over 86400 > /dev/null
  kill -0 "$server" || fail "the daemon has ended: $(cat "$work/served")"
  lost_packets
  exit 0
fi

trap 'note put over; cleanup' EXIT
mkdir -p "$tree/sub"
fill "$tree/large" 9000001
for i in $(seq 200); do printf '%s' "$i" > "$tree/sub/small $i"; done
fill "$tree/sub/middle" 1000000
there=$RDMA_HOST_PEER:box
port=$(note get port)
box=$(note get box)
copy() {  # copy FROM TO: returns false if it failed, and prints the failure
  local code=0
  timeout 120 "$programs/cordma-cp" -a --transport verbs --port "$port" "$@" > "$work/output" 2>&1 || code=$?
  lost=$((lost + $(grep -c '^cordma-cp: connection lost' "$work/output" || true)))
  [ "$code" -ne 0 ] || return 0
  printf 'round %s: cordma-cp %s ended with %s:\n' "$round" "$*" "$code"
  cat "$work/output"
  return 1
}
same() {
  diff -r "$tree" "$back" || { printf 'round %s: what came back is not what was sent\n' "$round"; return 1; }
}

failed=0 lost=0
for round in $(seq "$2"); do
  # Each round has a separate folder, because a failed round leaves parts of files behind.
  copy "$tree/" "$there/$round/" && copy "$there/$round/" "$back/" && same || failed=$((failed + 1))
  rm -rf "$back"
  on b rm -rf "$box/$round"  # the folder takes memory
done
lost_packets
echo "rounds that failed: $failed of $2; connections lost and made again: $lost"
[ "$failed" -eq 0 ] || fail "$failed of $2 rounds"
