# A pair of samples as two processes: PAIR TRANSPORT WAIT WAY; WAY is address or descriptor.
source "$(dirname "$0")/samples.sh"
pair=$2 transport=$3 wait=$4 way=$5
how=(--transport "$transport" --wait "$wait")
programs_of "$pair"

# run TEXT IMMEDIATE
run() {
  local said=() told
  case $pair in *imm*) said=(--immediate "$2") told="^immediate: $2\\b" ;; esac
  case $pair in
    read) told="^connected over $transport$" ;;
    write) told="^written: \"$1\"$" ;;
    message) told="^received: \"$1\"$" ;;
  esac
  begin "$way" "$waits" "${how[@]}" --text "$1" "${said[@]}"
  expect 0 "^connected over $transport$" "$goes" "${how[@]}" "${there[@]}" --text "$1" "${said[@]}"
  if [ "$pair" = read ]; then
    grep -qx "read: \"$1\"" "$work/output" || fail "the requester has read something else"
  fi
  ended 0 "$told"
  grep -qx "connected over $transport" "$work/served" || fail "the other side did not say over what"
}

if [ "$pair" = sync_event ]; then
  begin "$way" "$waits" "${how[@]}"
  expect 0 '^answered: 0xD0CB$' "$goes" "${how[@]}" "${there[@]}"
  ended 0 '^counter: '
  [ "$(grep '^counter: ' "$work/served" | tr '\n' ' ')" = \
    'counter: 0xD0CA counter: 0xD0CB counter: 0xFFFFFFFFFFFFFFFF ' ] || fail "not in this order"
  exit 0
fi
run 'Hi cordma!' 42
# Emulated processors take a second for each process, so over verbs the other texts use one way
# only.
if [ "$transport" != verbs ] || [ "$wait $way" = 'event descriptor' ]; then
  run 'another text' 4294967295
  run '' 0
fi
[ -z "$(find "$work" -name 'pair*')" ] || fail "descriptors were left behind"
