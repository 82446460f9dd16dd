# Every error in the command line of cordma-perf ends with 2, and the message names the correct
# usage.
source "$(dirname "$0")/expect.sh"

perf() { expect "$1" "$2" cordma-perf "${@:3}"; }

perf 0 '^cordma-perf [0-9]+\.[0-9]+' --version
perf 0 'compare-swap +remote' --help
perf 0 '^  tpt +4 flows' --help
perf 2 'give one of HOST:PORT, --listen and --local'
perf 2 'give one of HOST:PORT' --local --listen
perf 2 "unknown option --bogus" --local --bogus
perf 2 'did you mean --iterations' --local --iteratons 5
perf 2 "'extra' was not expected" 127.0.0.1:1 extra
perf 2 "'carrier-pigeon' will not do; it takes auto, shm, tcp or verbs" \
  --local --transport carrier-pigeon
perf 2 "'sim' will not do" --local --transport sim
for test in ping send send-ping fetch-add-bw; do
  perf 2 "'$test' will not do; it takes send, tag, am, stream" --local --test $test
done
for wait in sometimes event:5 adaptive: adaptive:x adaptive:-1; do
  perf 2 '(polling, event, adaptive, or adaptive:US)|(a whole number from 0)' --local --wait $wait
done
for size in 0 -1 12x 2G K 1B B 99999999999999999999999 1..2G ..5 5.. ''; do
  perf 2 '(--size: .* bytes from 1 to 1G)|(--size.*1 required)|(--help lists)' --local --size="$size"
done
perf 2 'a whole number from 1 to 4096' --local --outstanding 5000
perf 2 'a whole number from 1 to' --local --iterations 0
perf 2 'exclude each other' --local --iterations 5 --duration 1
perf 2 'seconds from 0.01 to 86400' --local --duration forever
perf 2 'words of 8 bytes' --local --test fetch-add-lat --size 16
perf 2 'works with -lat tests, one request at a time; not with read-bw' \
  --local --test read-bw --think-us 5
perf 2 'not with send-lat and --outstanding or --load' --local --outstanding 2 --think-us 5
perf 2 'needs the mean: --think-us' --local --random-think
perf 2 'outstanding above 1 works with .*; not with am-lat' --local --test am-lat --outstanding 2
perf 2 'load works with .*-lat; not with write-lat' --local --test write-lat --load 5
perf 2 'load works with -lat tests, not with send-bw' --local --test send-bw --load 5
for load in 0 -1 fast 101% 1e99 ''; do
  perf 2 '(requests per second)|(--load.*1 required)|(--help lists)' --local --load="$load"
done
perf 2 'needs a --load' --local --arrival poisson
perf 2 "'bus' will not do; it takes poisson or constant" --local --load 5 --arrival bus
perf 2 'with --load the client polls' 127.0.0.1:1 --load 5 --wait event
perf 2 'works where many are in flight, not with send-lat' --local --messages 2
perf 2 'outstanding times --messages may be 4096' --local --test send-bw --outstanding 64 --messages 65
perf 2 'a whole number from 1 to 256' --local --flows 257
perf 2 'stall works where the server answers.*not with read-lat' --local --test read-lat --stall 5
perf 2 'it takes lat, tpt, bi or basic' --local --set everything
perf 2 'seconds from 0.1 to 3600' --local --watchdog 0
perf 2 'watchdog: pauses, stalls' --local --test idle --watchdog 1
perf 2 'watchdog: pauses, stalls' --local --think-us 600000 --watchdog 0.5
perf 2 'watchdog: pauses, stalls' --local --stall 3000 --watchdog 1
perf 2 'check does not work with write-lat' --local --test write-lat --check
perf 2 'flip shows what --check sees' --local --flip
perf 2 'A..B with A not above B' --local --size 1M..256
perf 2 'once goes with --listen' --local --once
perf 2 '16 at least for a stream' --local --test stream-lat --depth 8
for option in '--size 1M' '--test send-bw' '--duration 5' '--check' '--json x' '--watchdog 1' '--depth 7'; do
  # shellcheck disable=SC2086
  perf 2 'is the client.s to say' --listen 127.0.0.1:0 $option
done
perf 2 'wait: a server has one' --listen 127.0.0.1:0 --wait polling,event
perf 2 'one or two numbers' --local --cpu 0,1,2
perf 2 'lacks a port from 0 to 65535' localhost:http
perf 2 'IPv6 addresses go into brackets' ::1:5
perf 1 'may not run on CPU 4095' --local --iterations 1 --cpu 4095
[ -d /sys/class/infiniband ] ||
  perf 1 'no RDMA device is here|this build has no verbs transport' \
    --local --transport verbs --iterations 1
perf 1 'inline_bytes 1000000 is more than' --local --iterations 1 --inline 1000000
perf 1 'depth 1000000 is more than' --local --iterations 1 --depth 1000000
perf 1 'unreachable: 127.0.0.1:1 ' 127.0.0.1:1 --iterations 1
echo '{"precious": 1}' > "$work/figures.json"
perf 1 'unreachable' 127.0.0.1:1 --iterations 1 --json "$work/figures.json"
grep -q '"valid": false' "$work/figures.json" && grep -q 'unreachable' "$work/figures.json" ||
  fail "a run that failed left $(cat "$work/figures.json")"
perf 1 'cannot write .*No such file' --local --iterations 1000000000 --json /nonexistent/figures.json
CORDMA_TRANSPROT=tcp perf 0 'note: CORDMA_TRANSPROT is no setting.*CORDMA_TRANSPORT' \
  --local --iterations 10
for figures in "" "--json -"; do
  # shellcheck disable=SC2086
  "$programs/cordma-perf" --local --iterations 10 $figures > /dev/full 2> "$work/output" &&
    fail "a full disk is no error"
  grep -q '^cordma-perf: standard output: ' "$work/output" || fail "a full disk is not named"
done
