# Many connections, in every arrangement: TRANSPORT WAIT.
source "$(dirname "$0")/samples.sh"
how=(--transport "$2" --wait "$3")
count=8

all_ended_well() {
  local process
  for process in "$@"; do wait "$process" || fail "one of $count processes did not end well"; done
}

# Many clients and one server; every client is a process.
serve sample-multi_receiver "${how[@]}" --listen "$host:0" --connections $count
clients=()
for i in $(seq $count); do
  "$programs/sample-message_imm_sender" "${how[@]}" --connect "$address" \
    --text "from client $i" --immediate "$i" > /dev/null &
  clients+=($!)
done
all_ended_well "${clients[@]}"
ended 0 "^received: $count different messages over $count connections$"
for i in $(seq $count); do
  grep -qx "received: \"from client $i\", immediate $i" "$work/served" || fail "client $i is missing"
done

# One client and many servers.
addresses='' servers=()
for i in $(seq 0 $((count - 1))); do
  serve sample-message_imm_receiver "${how[@]}" --listen "$host:0" --text "Hi cordma! to $i" \
    --immediate $((42 + i))
  addresses+=${addresses:+,}$address servers+=("$server")
done
expect 0 "^sent: $count messages over $count connections$" sample-multi_sender "${how[@]}" \
  --connect "$addresses"
all_ended_well "${servers[@]}"

# One server that sends to many clients, which connect one after the other.
serve sample-multi_sender "${how[@]}" --listen "$host:0" --connections $count
clients=()
for i in $(seq 0 $((count - 1))); do
  : > "$work/client $i"
  "$programs/sample-message_imm_receiver" "${how[@]}" --connect "$address" \
    --text "Hi cordma! to $i" --immediate $((42 + i)) > "$work/client $i" 2>&1 &
  clients+=($!)
  printed '^connected' "$work/client $i" "${clients[-1]}"
done
all_ended_well "${clients[@]}"
ended 0 "^sent: $count messages over $count connections$"

# Many connections between two processes: to one address, and by descriptors.
serve sample-multi_receiver "${how[@]}" --listen "$host:0" --connections $count
expect 0 "^sent: $count messages over $count connections$" sample-multi_sender "${how[@]}" \
  --connect "$(yes "$address" | head -n $count | paste -sd,)"
ended 0 "^received: $count different messages over $count connections$"
start sample-multi_receiver "${how[@]}" --descriptor "$work/pair" --connections $count
expect 0 "^sent: $count messages over $count connections$" sample-multi_sender "${how[@]}" \
  --descriptor "$work/pair" --connections $count
ended 0 "^received: $count different messages over $count connections$"

# Two clients that send the same text, or the same immediate.
for text in same other; do
  serve sample-multi_receiver "${how[@]}" --listen "$host:0" --connections 2
  "$programs/sample-message_imm_sender" "${how[@]}" --connect "$address" --text same --immediate 1 \
    > /dev/null 2>&1 &
  background+=($!)
  "$programs/sample-message_imm_sender" "${how[@]}" --connect "$address" --text $text --immediate 1 \
    > /dev/null 2>&1 &
  background+=($!)
  if [ $text = same ]; then why='that text has come before'; else why='that immediate has come before'; fi
  ended 1 "$why"
done
# A client that is killed before the others have connected.
for waiting in multi_receiver multi_sender; do
  other=sender
  [ $waiting = multi_receiver ] || other=receiver
  serve sample-$waiting "${how[@]}" --listen "$host:0" --connections 2
  : > "$work/victim"
  "$programs/sample-message_imm_$other" "${how[@]}" --connect "$address" --hold > "$work/victim" 2>&1 &
  victim=$!
  background+=("$victim")
  printed '^connected' "$work/victim" "$victim"
  kill -9 "$victim"
  ended 1 "^sample-$waiting: .*connection_reset"
done
serve sample-multi_receiver "${how[@]}" --listen "$host:0" --connections 2
"$programs/sample-message_imm_sender" "${how[@]}" --connect "$address" --hold > /dev/null 2>&1 &
victim=$!
"$programs/sample-message_imm_sender" "${how[@]}" --connect "$address" > /dev/null 2>&1 &
background+=("$victim" $!)
printed '^connected' "$work/served" "$server"
kill -9 "$victim"
ended 1 '^sample-multi_receiver: .*connection_reset'
