# Checks that the figures of cordma-perf measure the documented quantities.
source "$(dirname "$0")/expect.sh"

perf() {  # perf FILE ARGUMENT...: writes figures into the file
  local file=$1
  shift
  # A generator that lags on a busy machine is noted in the figures.
  "$programs/cordma-perf" --local "$@" --json "$file" > "$work/output" 2>&1 || grep -q 'not valid' "$work/output" ||
    fail "cordma-perf $*: $(cat "$work/output")"
}

# A server that is stopped for 100 ms: of the requests of 2 s, one each millisecond, 100 had to
# wait. The closed loop measures one long round trip, and has no samples of the requests that it did
# not send.
perf "$work/open" --load 1000 --arrival constant --duration 2 --stall 100 --wait event
perf "$work/closed" --iterations 20000 --stall 100 --wait event
# Idle: polling takes a core, event mode takes nothing.
perf "$work/idle" --test idle --duration 1 --transport shm,tcp --wait polling,event,adaptive
# Pauses are part of no latency, and Little's law holds with them.
perf "$work/think" --think-us 2000 --iterations 300 --wait event
perf "$work/random" --think-us 300 --random-think --iterations 2000 --wait event
# Latencies of reads and atomics count as operations.
perf "$work/read" --test read-lat,fetch-add-lat,write-lat --iterations 2000
python3 - "$work" <<'PYTHON' || fail "the figures are not what they should be"
import json
import sys


def read(name):
    with open(f"{sys.argv[1]}/{name}") as file:
        return json.load(file)


stalled, closed = read("open"), read("closed")
intended, actual = stalled["latency_us"], stalled["latency_from_actual_us"]
assert stalled["arrival"] == "constant" and stalled["load_hz"] == 1000, stalled
assert stalled["wait"] == stalled["server"]["wait"] == "event" and stalled["client"]["wait"] == "polling", stalled
assert intended["from"] == "intended start" and intended["n"] == actual["n"] == 2000, stalled
assert intended["p999"] > 90_000 and intended["p99"] > 70_000, intended
# One in 20: regardless of other load on the machine, a twentieth waited for the stall to end.
late = [us for share, us in intended["curve"] if share >= 0.96]
assert min(late) > 10_000, intended
assert closed["latency_us"]["max"] > 100_000, closed
assert closed["latency_us"]["beyond"]["p999"] == 20 and closed["latency_us"]["p999"] < 90_000, closed
assert stalled["lag_us"]["n"] == 2000, stalled

for figures in read("idle"):
    for side in ("client", "server"):
        percent = figures[side]["cpu_percent"]
        if figures["wait"] == "polling":
            # Other processes may take the processor from a polling process, but it never sleeps.
            assert figures[side]["sleeps"] == 0 and percent > 5, figures
        else:
            assert percent < 1 and figures[side]["wakeups"] < 20, figures

think, random = read("think"), read("random")
assert think["think_spread"] == "constant" and random["think_spread"] == "exponential"
assert think["elapsed_s"] >= 300 * 2e-3, think
assert think["latency_us"]["p50"] < 2000, think
assert 0.3 * 2000 * 300e-6 < random["elapsed_s"], random
for figures in (think, random):
    law = figures["littles_law"]
    assert law["in_flight"] == 1 and law["holds"], law
    # A pause and a message: each side sleeps for each, and wakes up, unless a busy machine kept it
    # from sleeping.
    assert 0.1 <= figures["per_message"]["server"]["wakeups"] <= 1.2, figures
    for side in ("client", "server"):
        syscalls = figures["per_message"][side]["syscalls"]
        assert (syscalls is None and "syscalls_not_counted" in figures) or 0.1 <= syscalls <= 20, figures

for figures in read("read"):
    expected = "round trip" if figures["test"] == "write-lat" else "operation"
    assert figures["latency_us"]["of"] == expected, figures
    assert ("half_round_trip_us" in figures) == (expected == "round trip"), figures
    assert figures["latency_us"]["n"] == 2000, figures
PYTHON

# A run of a given duration, and a run of a given number of iterations.
perf "$work/long" --duration 3 --wait adaptive
perf "$work/many" --iterations 12345 --flows 5 --wait adaptive
python3 - "$work" <<'PYTHON' || fail "runs are not as long as they should be"
import json
import sys

with open(sys.argv[1] + "/long") as file:
    long = json.load(file)
with open(sys.argv[1] + "/many") as file:
    many = json.load(file)
assert long["elapsed_s"] >= 2.9 and long["iterations"] == long["latency_us"]["n"], long
assert many["iterations"] == many["latency_us"]["n"] == 12345, many
PYTHON

# A generator that was itself stopped prints no figures, and an unsustainable load is not reported
# as reached.
python3 - "$programs/cordma-perf" <<'PYTHON' || fail "a generator that lags is not found out"
import os
import signal
import subprocess
import sys
import time

run = subprocess.Popen([sys.argv[1], "--local", "--load", "1000", "--duration", "3", "--wait", "event"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def spent_s():
    with open(f"/proc/{run.pid}/stat") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


try:
    began = time.monotonic()
    while spent_s() < 0.6:  # it polls, so it is in the middle of its three seconds
        assert run.poll() is None and time.monotonic() - began < 60
        time.sleep(0.01)
    run.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    run.send_signal(signal.SIGCONT)
    said = run.communicate(timeout=60)[1]
finally:
    run.kill()
assert run.returncode == 1 and "not valid: the generator lagged" in said, (run.returncode, said)
PYTHON
"$programs/cordma-perf" --local --load 100M --iterations 20000 > "$work/output" 2>&1 || true
grep -Eq 'note: the server did not keep up: what was due|not valid: the generator lagged' "$work/output" ||
  fail "a load that nobody can bear: $(cat "$work/output")"

# Progress is printed only to terminals, and only for runs longer than two seconds.
python3 - "$programs/cordma-perf" <<'PYTHON' || fail "progress is not shown as it should be"
import os
import pty
import subprocess
import sys
import time


def on_terminal(*arguments):
    ours, theirs = pty.openpty()
    run = subprocess.Popen([sys.argv[1], "--local", "--wait", "adaptive", *arguments], stdout=subprocess.DEVNULL,
                           stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the other end is closed
        pass
    assert run.wait() == 0, (run.returncode, shown)
    return shown.decode()


shown = on_terminal("--duration", "4")
assert "send-lat: " in shown and "% " in shown.replace(" %", "% ") and "s left" in shown, shown
assert shown.endswith("\r\x1b[K"), shown
began = time.monotonic()
shown = on_terminal("--iterations", "100", "--warmup", "0")
assert shown == "" or time.monotonic() - began > 2, shown
PYTHON
! "$programs/cordma-perf" --local --wait adaptive --duration 3 2>&1 > /dev/null | grep -q . ||
  fail "there is progress where nobody looks"
