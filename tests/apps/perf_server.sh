# cordma-perf as a server and a client that share only an address.
source "$(dirname "$0")/expect.sh"

serve cordma-perf --listen 127.0.0.1:0 --wait adaptive
# A client that sends nothing does not delay other clients.
"$programs/sample-message_receiver" --connect "$address" --hold --transport tcp > "$work/silent" 2>&1 &
silent=$!
background+=("$silent")
until grep -q '^connected over' "$work/silent"; do
  kill -0 "$silent" 2> /dev/null || fail "the silent client: $(cat "$work/silent")"
  sleep 0.05
done
for transport in shm tcp; do
  expect 0 "over $transport: " cordma-perf --test send-lat,read-bw --iterations 50 --check --verbose \
    --wait adaptive --transport $transport "$address"
done
# A client of another program receives an error, and the server continues.
expect 0 'is no cordma-perf of this version' example-echo "$address" "no greeting of mine"
expect 0 '^send-bi 3x32 ' cordma-perf "$address" --test send-bi,stream-bw,am-bi --flows 3 --iterations 99 --check
# A server of another program is reported by the client.
before=$address
expect 0 "the peer's cordma-perf speaks version 3, this one" example-echo "$address" '{"version": 3}'
serve example-echo --serve 127.0.0.1:0
expect 1 'the peer is no cordma-perf of this version' cordma-perf "$address" --iterations 1
address=$before
expect 0 '^send-rate ' cordma-perf "$address" --test send-rate --iterations 100 --wait adaptive
kill -0 "$server" || fail "the server is gone"

# The address is in use; the message names its user.
expect 1 'in_use' cordma-perf --listen "$address"

serve cordma-perf --listen 127.0.0.1:0 --once --wait event
expect 0 '^send-lat ' cordma-perf "$address" --iterations 10 --wait event
wait "$server" || fail "the server of --once did not end well"
