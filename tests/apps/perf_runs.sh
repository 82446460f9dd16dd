# Every test of cordma-perf in every waiting mode over one transport, every byte checked.
source "$(dirname "$0")/expect.sh"
transport=$2

tests=send-lat,send-bw,send-rate,write-lat,write-bw,read-lat,read-bw,fetch-add-lat,fetch-add-rate
tests+=,tag-lat,tag-bw,am-lat,stream-bw
expect 0 '^fetch-add-rate ' cordma-perf --local --transport "$transport" --test $tests \
  --wait polling,event,adaptive --iterations 50 --check
rows=$(grep -cE "^[a-z-]+ +$transport +(polling|event|adaptive) " "$work/output")
[ "$rows" -eq 39 ] || fail "39 runs should have made 39 rows, not $rows"

# Sizes at and around the borders: of inline data, of a flag, of what is sent at once.
expect 0 '^send-lat ' cordma-perf --local --transport "$transport" --test send-lat,write-lat \
  --size 1,7,8,9,64,65,4096,8193,65537 --wait adaptive --iterations 20 --check
expect 0 '^stream-bw ' cordma-perf --local --transport "$transport" \
  --test tag-lat,tag-bw,am-lat,stream-bw --size 1,496,497,8176,8177,300000 --wait event \
  --iterations 20 --check
for outstanding in 1 5 300; do
  expect 0 '^write-bw ' cordma-perf --local --transport "$transport" \
    --test send-bw,read-bw,write-bw --size 1,100000 --outstanding $outstanding --wait adaptive \
    --iterations 40 --check
done

# Long messages have fewer buffers, down to one.
expect 0 '^write-lat ' cordma-perf --local --transport "$transport" --test send-lat,write-lat,read-lat \
  --size 6M,12M,20M --wait adaptive --iterations 4 --warmup 1 --check
expect 1 'cannot allocate .* bytes: this machine, or the memory limit' cordma-perf \
  --local --transport "$transport" --test send-bw --size 1G --outstanding 4096 --check --iterations 1

# What a script reads.
cpu=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
"$programs/cordma-perf" --local --transport "$transport" --wait event --think-us 10 \
  --iterations 20 --cpu "$cpu" --json - > "$work/json" 2> "$work/errors"
python3 - "$work/json" "$transport" "$cpu" <<'PYTHON' || fail "the JSON is not what it should be"
import datetime
import json
import os
import sys

figures = json.load(open(sys.argv[1]))
assert figures["valid"] is True and figures["transport"] == sys.argv[2], figures
assert figures["test"] == "send-lat" and figures["wait"] == "event" and figures["size"] == 8
assert figures["iterations"] == 20 and figures["think_us"] == 10
times = figures["one_way_us"]
assert 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"], times
assert figures["cpu_ns_per_message"]["client"] > 0 and figures["cpu_ns_per_message"]["server"] > 0
for side in ("client", "server"):
    assert {"wakeups", "arms", "sleeps", "voluntary_switches", "involuntary_switches"} <= \
        figures[side].keys()
assert figures["client"]["sleeps"] > 0
under = figures["conditions"]
assert figures["version"] and under["host"] == os.uname().nodename and "cpu" in under, under
assert under["kernel"].endswith(os.uname().release) and under["cpus"] >= 1, under
assert under["client_pinned_to"] == under["server_pinned_to"] == int(sys.argv[3]), under
began = datetime.datetime.strptime(under["date"], "%Y-%m-%dT%H:%M:%S%z")
age = datetime.datetime.now(datetime.timezone.utc) - began
assert -1 < age.total_seconds() < 600, under
PYTHON

# What a remote read costs its target: nothing over shm, a wake-up for each where the target serves it.
"$programs/cordma-perf" --local --transport "$transport" --test read-lat --wait event \
  --iterations 1000 --json - > "$work/json" 2> "$work/errors"
python3 - "$work/json" "$transport" <<'PYTHON' || fail "the target's cost is not what it should be"
import json
import sys

server = json.load(open(sys.argv[1]))["server"]
assert {"cpu_ns", "cpu_percent", "wakeups", "turns"} <= server.keys(), server
if sys.argv[2] == "shm":
    assert server["wakeups"] <= 5 and server["turns"] <= 50, server
else:
    assert server["turns"] >= 1000, server
PYTHON
