# Every measurement of cordma-perf ends with an error when its peer is killed; a server then serves
# the next client.
source "$(dirname "$0")/expect.sh"

# CPU time of a process so far, in hundredths of a second; empty if it has exited.
spent() { sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | awk '{print $12 + $13}'; }

# Waits until the process has used 0.2 s of CPU time, so that the measurement is running.
until_busy() {
  local waited=0 time
  while time=$(spent "$1") && [ "${time:-20}" -lt 20 ]; do
    [ $((waited += 1)) -le 600 ] || fail "process $1 does nothing"
    sleep 0.05
  done
}

measure() {  # measure TEST ARGUMENT...: starts it in the background; sets `client`
  "$programs/cordma-perf" "$address" --transport "$transport" --test "$@" --iterations 10000000000 --warmup 0 \
    > "$work/client" 2>&1 &
  client=$!
  background+=("$client")
  until_busy "$client"
}

# One of each kind of loop.
tests=("send-lat" "send-lat --load 1000" "tag-lat --outstanding 4" "send-lat --think-us 1"
  "write-lat" "stream-lat" "am-lat" "read-lat" "send-bw --flows 3" "write-bi" "tag-bi" "am-bw" "stream-bi" "idle")
for transport in shm tcp; do
  for test in "${tests[@]}"; do
    serve cordma-perf --listen 127.0.0.1:0 --wait event
    # shellcheck disable=SC2086
    measure $test
    kill -9 "$server"
    got=0
    wait "$client" || got=$?
    [ $got -eq 1 ] || fail "$test over $transport ended with $got, not 1, when its server was killed"
    grep -q "^cordma-perf: ${test%% *}: " "$work/client" || fail "$test over $transport: $(cat "$work/client")"
  done
  serve cordma-perf --listen 127.0.0.1:0 --wait event
  for test in "${tests[@]}"; do
    # shellcheck disable=SC2086
    measure $test
    kill -9 "$client"
    wait "$client" || true
    expect 0 '^send-lat ' cordma-perf "$address" --iterations 10
  done
done
