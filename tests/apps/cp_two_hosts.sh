# A tree is copied from one machine to another and back, over a wire that loses packets. The same is
# repeated with one side killed in the middle of each direction. Runs on both machines: the files
# are on a, and the daemon is on b. PROGRAMS
source "$(dirname "$0")/expect.sh"
source "$(dirname "$0")/two_hosts.sh"
tree=$work/tree box=$work/box back=$work/back

# half_here DIRECTORY PROCESS: waits until 3 MB of `large` have been written. The file has its full
# length from the beginning.
half_here() {
  local blocks=0 end=$((SECONDS + 60))
  until [ "$blocks" -ge 6000 ]; do
    kill -0 "$2" 2> /dev/null || fail "this side ended before $1/large was half here: $(cat "$work/killed")"
    [ ! -e "$1/large" ] || fail "$1/large was whole before it was seen half"
    [ "$SECONDS" -lt "$end" ] || fail "60 s, and $1/large is not half here"
    sleep 0.05
    blocks=$(stat -c %b "$1/.large.cordma-part" 2> /dev/null) || blocks=0
  done
}

if [ "$RDMA_HOST_NAME" = b ]; then
  mkdir "$box"
  : > "$work/killed"
  daemon port
  note get pushing > /dev/null
  half_here "$box/killed" "$server"
  note put half
  note get kill_daemon > /dev/null
  kill -KILL "$server"
  wait "$server" || true
  daemon port_again
  note get over > /dev/null
  lost_packets
  exit 0
fi

trap 'note put over; cleanup' EXIT
mkdir -p "$tree/sub/empty"
fill "$tree/large" 9000001
for i in $(seq 200); do printf '%s' "$i" > "$tree/sub/small $i"; done
fill "$tree/sub/middle" 300000
ln -s ../large "$tree/sub/link"
there=$RDMA_HOST_PEER:box
port=$(note get port)
copy() { expect 0 "$1" cordma-cp -a --transport verbs --port "$port" --json "$work/json" "${@:2}"; }
same() { diff -r --no-dereference "$tree" "$back" || fail "what came back is not what was sent"; }
# A file of 9 MB of which half had been received when the transfer was killed.
went_on() {
  local resumed
  resumed=$(sed -n 's/.*"resumed_bytes": *\([0-9]*\).*/\1/p' "$work/json")
  echo "did not have to come again: $resumed bytes"
  [ "$resumed" -gt 0 ] || fail "all of it came again"
}

copy '^202 files, .* over verbs' "$tree/" "$there/in/"
copy '^202 files, .* over verbs' "$there/in/" "$back/"
same

start() {  # start FROM TO: starts a transfer that runs for seconds, to be killed
  "$programs/cordma-cp" -a --reconnect off --bwlimit 512k --transport verbs --port "$port" "$@" > "$work/killed" 2>&1 &
  client=$!
}
start "$tree/" "$there/killed/"
note put pushing
note get half > /dev/null
kill -KILL "$client" || fail "the client ended before it was killed: $(cat "$work/killed")"
wait "$client" || true
copy ' over verbs' "$tree/" "$there/killed/"
went_on
rm -r "$back"
start "$there/killed/" "$back/"
half_here "$back" "$client"
note put kill_daemon
code=0
wait "$client" || code=$?
case $code in
  10 | 12) ;;
  *) fail "a client whose daemon was killed ended with $code: $(cat "$work/killed")" ;;
esac
port=$(note get port_again)
copy ' over verbs' "$there/killed/" "$back/"
went_on
same
[ -z "$(find "$back" -name '*cordma*')" ] || fail "something is left over"
lost_packets
