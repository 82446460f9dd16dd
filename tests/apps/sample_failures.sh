# After any failure or death of one side, both sides of a pair of samples end with an error:
# TRANSPORT.
source "$(dirname "$0")/samples.sh"
transport=$2
how=(--transport "$transport")
# Error of the target. An RDMA device refuses the access without notifying it.
refused=remote_access
[ "$transport" != verbs ] || refused='(remote_access|connection_reset)'

# The right is missing on the memory, or on the connection. Emulated processors take a second for
# each. On verbs, every pair lacks one of the two, with one way to connect.
turn=0
for pair in read write write_imm; do
  programs_of "$pair"
  for way in address descriptor; do
    for place in memory connection; do
      turn=$((turn + 1))
      case $transport,$turn in verbs,1 | verbs,6 | verbs,11) ;; verbs,*) continue ;; esac
      begin "$way" "$waits" "${how[@]}" --withhold "$place"
      expect 1 "^$goes: .*remote_access" "$goes" "${how[@]}" "${there[@]}"
      ended 1 "^$waits: .*$refused"
    done
  done
done

for way in address descriptor; do
  begin "$way" sample-sync_event_responder "${how[@]}" --withhold connection
  expect 1 '^sample-sync_event_requester: .*remote_access' sample-sync_event_requester "${how[@]}" \
    "${there[@]}"
  ended 1 "^sample-sync_event_responder: .*$refused"
  begin "$way" sample-sync_event_responder "${how[@]}" --withhold memory
  expect 1 '^sample-sync_event_requester: .*not_permitted' sample-sync_event_requester "${how[@]}" \
    "${there[@]}"
  ended 1 '^sample-sync_event_responder: .*connection_reset'
done

# An error that one side detects also ends the other side.
for pair in read write write_imm message message_imm; do
  programs_of "$pair"
  begin address "$waits" "${how[@]}"
  expect 1 "^$goes: " "$goes" "${how[@]}" "${there[@]}" --text 'not this one'
  ended 1 "^$waits: "
done
for pair in write_imm message_imm; do
  programs_of "$pair"
  begin address "$waits" "${how[@]}"
  expect 1 'connection_reset' "$goes" "${how[@]}" "${there[@]}" --immediate 43
  ended 1 'expected another immediate'
done
begin address sample-write_imm_responder "${how[@]}"
expect 1 'connection_reset' sample-write_requester "${how[@]}" "${there[@]}"
ended 1 'that was no write'
begin address sample-message_receiver "${how[@]}"
expect 1 'connection_reset' sample-message_imm_sender "${how[@]}" "${there[@]}"
ended 1 'was to come without'
begin address sample-message_imm_receiver "${how[@]}"
expect 1 'connection_reset' sample-message_sender "${how[@]}" "${there[@]}"
ended 1 'without an immediate'
expect 1 'unreachable' sample-read_requester "${how[@]}" --connect "$host:1"

# One side is killed while both are connected. On verbs every pair loses each of its sides once,
# alternately connected by address and by descriptor. With a descriptor, a killed process is
# detected only by its silence.
[ "$transport" != verbs ] || export CORDMA_VERBS_TIMEOUT=13
turn=0
for pair in read write write_imm message message_imm sync_event; do
  programs_of "$pair"
  for way in address descriptor; do
    for victim in server holder; do
      turn=$((turn + 1))
      case $transport,$((turn % 8)) in verbs,[2367]) continue ;; esac
      rm -f "$work"/pair*
      begin "$way" "$waits" "${how[@]}"
      : > "$work/held"
      "$programs/$goes" "${how[@]}" "${there[@]}" --hold > "$work/held" 2>&1 &
      holder=$!
      background+=("$holder")
      printed '^connected' "$work/held" "$holder"
      printed '^connected' "$work/served" "$server"
      kill -9 "${!victim}"
      if [ "$victim" = holder ]; then
        ended 1 "^$waits: "
      else
        server=$holder
        mv "$work/held" "$work/served"
        ended 1 "^$goes: .*connection_reset"
      fi
    done
  done
done

# Files left behind by a killed pair make the next pair fail with a message, and not the one after
# that.
rm -f "$work"/pair*
programs_of read
begin descriptor "$waits" "${how[@]}"
until [ -e "$work/pair.responder" ]; do sleep 0.05; done
kill -9 "$server"
wait "$server" || true
expect 1 'left by a pair that was killed' "$goes" "${how[@]}" "${there[@]}"
left=$(find "$work" -name 'pair*')
[ -z "$left" ] || fail "files are left behind: $left"
begin descriptor "$waits" "${how[@]}"
expect 0 '^connected' "$goes" "${how[@]}" "${there[@]}"
ended 0 '^connected'
