# Every test of cordma-perf in every wait mode over one transport, with every byte checked.
source "$(dirname "$0")/expect.sh"
transport=$2

tests=idle,write-bw,write-rate,write-bi  # write-lat cannot be checked
for what in send tag am stream write-imm read; do
  tests+=,$what-lat,$what-bw,$what-rate,$what-bi
done
for what in fetch-add compare-swap; do tests+=,$what-lat,$what-rate,$what-bi; done
expect 0 '^compare-swap-bi ' cordma-perf --local --transport "$transport" --test $tests \
  --wait polling,event,adaptive:20 --iterations 50 --check
rows=$(grep -cE "^[a-z-]+ +$transport +(polling|event|adaptive:20) " "$work/output")
[ "$rows" -eq 102 ] || fail "102 runs should have made 102 rows, not $rows"

# One bit of one message is wrong: the check detects it, on one side or the other, in every test.
for test in ${tests//,/ }; do
  [ "$test" = idle ] ||
    expect 1 'not valid: [0-9]+ messages were wrong at the (client|server)' cordma-perf --local \
      --transport "$transport" --test "$test" --size "$(case $test in fetch* | comp*) echo 8 ;; *) echo 777 ;; esac)" \
      --wait adaptive --iterations 40 --check --flip
done
expect 1 'messages were wrong' cordma-perf --local --transport "$transport" --wait adaptive --iterations 300 \
  --test send-lat,read-lat --outstanding 256 --check --flip

# Every test limited by time.
expect 0 '^compare-swap-bi ' cordma-perf --local --transport "$transport" --wait event --duration 0.02 \
  --test write-lat,$tests
# Long enough for Little's law: the time between two requests is short, even for requests of 20 ns.
expect 0 '^compare-swap-lat ' cordma-perf --local --transport "$transport" --wait adaptive --duration 0.6 \
  --test send-lat,am-lat,stream-lat,write-lat,read-lat,compare-swap-lat

# The same with several flows at a time, and several messages to a request.
expect 0 '^compare-swap-bi 3x32 ' cordma-perf --local --transport "$transport" --test $tests \
  --flows 3 --wait event --iterations 60 --check
expect 0 '^tag-bi 2x12 ' cordma-perf --local --transport "$transport" --wait adaptive --flows 2 \
  --outstanding 4 --messages 3 --test send-bw,send-bi,write-bw,write-imm-bi,am-bw,tag-bi --iterations 70 --check
for set in lat tpt bi basic; do
  expect 0 '^send-(lat|bw 4x2|bi 4x2) ' cordma-perf --local --transport "$transport" --set $set \
    --wait adaptive --iterations 20
done

# Several requests in flight, and requests at scheduled times: every response matches its request.
windowed=send-lat,tag-lat,write-imm-lat,read-lat,fetch-add-lat,compare-swap-lat
expect 0 '^compare-swap-lat ' cordma-perf --local --transport "$transport" --test $windowed \
  --outstanding 2,7,64 --wait adaptive --iterations 200 --check
for arrival in poisson constant; do
  # On a machine with other load the generator may lag: this is noted, and is no failure here.
  "$programs/cordma-perf" --local --transport "$transport" --test $windowed --load 20K --arrival $arrival \
    --flows 2 --wait event --iterations 300 --check > "$work/output" 2>&1 || true
  grep -v '^cordma-perf: \(note:\|not valid: the generator lagged\)' "$work/output" > "$work/rest"
  [ "$(grep -c ' 20000/s ' "$work/rest")" -eq 6 ] && ! grep '^cordma-perf:' "$work/rest" ||
    fail "the open loop: $(cat "$work/output")"
done

# Sizes at and around the limits of inline data, of a flag, and of eager messages.
expect 0 '^send-lat ' cordma-perf --local --transport "$transport" --test send-lat,write-imm-lat \
  --size 1,7,8,9,64,65,4096,8193,65537 --wait adaptive --iterations 20 --check
expect 0 '^write-lat ' cordma-perf --local --transport "$transport" --test write-lat \
  --size 1,7,8,9,64,65,4096,8193,65537 --wait adaptive --iterations 20
expect 0 '^stream-bw ' cordma-perf --local --transport "$transport" \
  --test tag-lat,tag-bw,am-lat,stream-bw --size 1,496,497,8176,8177,300000 --wait event \
  --iterations 20 --check
for outstanding in 1 5 300; do
  expect 0 '^write-bw ' cordma-perf --local --transport "$transport" \
    --test send-bw,read-bw,write-bw --size 1,100000 --outstanding $outstanding --wait adaptive \
    --iterations 40 --check
done

# Large messages use fewer buffers, down to one.
expect 0 '^write-lat ' cordma-perf --local --transport "$transport" --test write-lat --size 6M,12M,20M \
  --wait adaptive --iterations 4 --warmup 1
expect 0 '^read-lat ' cordma-perf --local --transport "$transport" --test send-lat,read-lat \
  --size 6M,12M,20M --wait adaptive --iterations 4 --warmup 1 --check
expect 1 'cannot allocate .* bytes: this machine, or a memory limit' cordma-perf \
  --local --transport "$transport" --test send-bw --size 1G --outstanding 4096 --check --iterations 1

# The output that a script reads.
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
assert figures["schema"] == "cordma-perf/1" and figures["arrival"] == "closed", figures
times = figures["latency_us"]
assert times["of"] == "round trip" and times["n"] == 20, times
assert 0 < times["min"] <= times["p50"] <= times["p99"] <= times["p999"] <= times["max"], times
assert times["min"] <= times["mean"] <= times["max"] and times["stdev"] >= 0, times
assert times["beyond"] == {"p50": 10, "p90": 2, "p99": 0, "p999": 0, "p9999": 0, "p99999": 0}, times
assert times["curve"][0][0] == 0 and times["curve"][-1] == [1, times["max"]], times
assert times["curve"] == sorted(times["curve"]), times
half = figures["half_round_trip_us"]
assert abs(half["p50"] * 2 - times["p50"]) < 1e-4 * times["p50"], (half, times)
assert abs(figures["bandwidth_Gbps"] - 8 * figures["bandwidth_GBps"]) < 1e-4 * figures["bandwidth_Gbps"]
each = figures["per_message"]["client"]
assert {"syscalls", "voluntary_switches", "involuntary_switches", "wakeups", "arms", "spins"} == each.keys()
assert each["wakeups"] > 0 and (each["syscalls"] is None) == ("syscalls_not_counted" in figures), figures
assert each["syscalls"] is None or each["syscalls"] >= 1, each  # it sleeps for each message
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

# The cost of a remote read at its target: nothing over shm, one wake-up for each read if the target
# serves it.
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
