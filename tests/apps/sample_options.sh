# Every sample has a help text, and reports errors in its command line.
source "$(dirname "$0")/samples.sh"

for program in "$programs"/sample-*; do
  program=$(basename "$program")
  expect 0 '^Ends with 0; with 1 where' "$program" --help
  expect 2 '--help lists all options$' "$program" --nonsense
  expect 2 '--transport: bogus not in' "$program" --transport bogus
done
for waits in read_responder write_responder write_imm_responder; do
  expect 0 "^  sample-$waits --listen 127.0.0.1:18710 &\$" "sample-$waits" --help
  expect 0 "^  sample-$waits --listen" "sample-${waits%responder}requester" --help
  expect 2 'give one of --listen or --descriptor; --help' "sample-$waits"
  expect 2 '^sample-.*--help lists' "sample-$waits" --connect 127.0.0.1:1
  expect 2 '--withhold: everything not in' "sample-$waits" --listen :0 --withhold everything
done
expect 2 'give one of --connect or --descriptor' sample-read_requester
expect 2 'give one of --listen or --connect or --descriptor' sample-message_sender \
  --listen :0 --descriptor "$work/pair"
expect 2 'lacks a port' sample-message_receiver --listen nowhere
expect 2 '--text: longer than 4095 bytes' sample-message_sender --connect 127.0.0.1:1 \
  --text "$(head -c 4096 /dev/zero | tr '\0' x)"
expect 2 '--immediate' sample-message_imm_sender --connect 127.0.0.1:1 --immediate 4294967296
expect 2 '--rnr-retry' sample-message_sender --connect 127.0.0.1:1 --rnr-retry 8
expect 2 '--receive: soon not in' sample-message_receiver --listen :0 --receive soon
expect 2 '--connections' sample-multi_receiver --listen :0 --connections 0
expect 2 'with --connect, name each peer' sample-multi_sender --connect 127.0.0.1:1 --connections 2
expect 2 '^sample-progress_polling: .*--wait' sample-progress_polling --wait event
expect 1 'no/such/folder' sample-read_responder --descriptor "$work/no/such/folder"
