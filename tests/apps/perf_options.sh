# Whatever is wrong with the command line of cordma-perf, it says what would be right, and ends with 2.
source "$(dirname "$0")/expect.sh"

perf() { expect "$1" "$2" cordma-perf "${@:3}"; }

perf 0 '^cordma-perf [0-9]+\.[0-9]+' --version
perf 0 'fetch-add-rate +remote' --help
perf 2 'give one of HOST:PORT, --listen and --local'
perf 2 'give one of HOST:PORT' --local --listen
perf 2 "unknown option --bogus" --local --bogus
perf 2 'did you mean --iterations' --local --iteratons 5
perf 2 "'extra' was not expected" 127.0.0.1:1 extra
perf 2 "'carrier-pigeon' will not do; it takes auto, shm, tcp or verbs" \
  --local --transport carrier-pigeon
perf 2 "'sim' will not do" --local --transport sim
perf 2 "'ping' will not do; it takes one of send-lat, send-bw" --local --test ping
perf 2 "'sometimes' will not do; it takes polling, event or adaptive" --local --wait sometimes
for size in 0 -1 12x 2G K 99999999999999999999999 ''; do
  perf 2 '(--size: .* bytes from 1 to 1G)|(--size.*1 required)|(--help lists)' --local --size="$size"
done
perf 2 'a whole number from 1 to 4096' --local --outstanding 5000
perf 2 'a whole number from 1 to' --local --iterations 0
perf 2 'exclude each other' --local --iterations 5 --duration 1
perf 2 'seconds from 0.01 to 3600' --local --duration forever
perf 2 'words of 8 bytes' --local --test fetch-add-lat --size 16
perf 2 'works with --test send-lat' --local --test read-lat --think-us 5
perf 2 'one or two numbers' --local --cpu 0,1,2
perf 2 'lacks a port from 0 to 65535' localhost:http
perf 2 'IPv6 addresses go into brackets' ::1:5
perf 1 'may not run on CPU 4095' --local --iterations 1 --cpu 4095
[ -d /sys/class/infiniband ] ||
  perf 1 'no RDMA device is here|this build has no verbs transport' \
    --local --transport verbs --iterations 1
perf 1 'unreachable: 127.0.0.1:1 ' 127.0.0.1:1 --iterations 1
perf 1 'cannot write .*No such file' --local --iterations 1000000000 --json /nonexistent/figures.json
CORDMA_TRANSPROT=tcp perf 0 'note: CORDMA_TRANSPROT is no setting.*CORDMA_TRANSPORT' \
  --local --iterations 10
for figures in "" "--json -"; do
  # shellcheck disable=SC2086
  "$programs/cordma-perf" --local --iterations 10 $figures > /dev/full 2> "$work/output" &&
    fail "a full disk is no error"
  grep -q '^cordma-perf: standard output: ' "$work/output" || fail "a full disk is not named"
done
