# Further options of the pairs of samples: TRANSPORT.
source "$(dirname "$0")/samples.sh"
how=(--transport "$2")

# The receiver may also connect, and the sender may listen.
for kind in message message_imm; do
  serve "sample-${kind}_sender" "${how[@]}" --listen "$host:0"
  expect 0 '^received: "Hi cordma!"$' "sample-${kind}_receiver" "${how[@]}" --connect "$address"
  ended 0 '^sending: "Hi cordma!"'
done

# A receive is posted late: the message waits for it, if --receive is set accordingly.
for pair in message message_imm write_imm; do
  programs_of "$pair"
  for way in address descriptor; do
    begin "$way" "$waits" "${how[@]}" --receive late
    expect 0 '^connected' "$goes" "${how[@]}" "${there[@]}"
    ended 0 'Hi cordma!'
    begin "$way" "$waits" "${how[@]}" --receive never
    expect 1 'remote_not_ready' "$goes" "${how[@]}" "${there[@]}" --rnr-retry 2
    ended 1 "^$waits: "
  done
done

# A write, after which the user presses Enter to signal its end. Before Enter nothing is read,
# although all of the data has arrived.
mkfifo "$work/keys"
for way in address descriptor; do
  exec 3<> "$work/keys"
  : > "$work/requester"
  begin "$way" sample-write_responder "${how[@]}" --done enter < "$work/keys"
  "$programs/sample-write_requester" "${how[@]}" "${there[@]}" --done enter > "$work/requester" 2>&1 &
  requester=$!
  background+=("$requester")
  printed '^now press Enter' "$work/requester" "$requester"
  ! grep -q '^written' "$work/served" || fail "the responder did not wait for Enter"
  printf '\n' >&3
  wait "$requester" || fail "the requester did not end well"
  ended 0 '^written: "Hi cordma!"$'
  exec 3>&-
done
serve sample-write_responder "${how[@]}" --done enter --listen "$host:0" < /dev/null
expect 1 "connection_reset" sample-write_requester "${how[@]}" --connect "$address" --done enter
ended 1 'standard input ended before Enter came'
