# A run of cordma-perf that ends early, and its output: Ctrl-C, and the watchdog.
source "$(dirname "$0")/expect.sh"

# Background jobs of a shell ignore Ctrl-C, so another process sends the signal.
cat > "$work/end.py" <<'PYTHON'
import json
import os
import re
import signal
import subprocess
import sys
import time

program, how, *arguments = sys.argv[1:]
ticks = os.sysconf("SC_CLK_TCK")


def busy_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / ticks


# `enough`: CPU time in seconds after which the run is interrupted.
def end(enough):
    server = run = None
    address = []
    try:
        if how.startswith("freeze") and how != "freeze-child":
            server = subprocess.Popen([program, "--listen", "127.0.0.1:0", "--wait", "event"],
                                      stdout=subprocess.PIPE, text=True)
            address.append(server.stdout.readline().split()[-1])
        run = subprocess.Popen([program, *arguments, *address, "--json", "-"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        began = time.monotonic()
        while busy_s(run.pid) < enough:
            if run.poll() is not None or time.monotonic() - began > 60:
                run.kill()
                raise AssertionError(run.communicate())
            time.sleep(0.01)
        if server:
            server.send_signal(signal.SIGSTOP)
        if how == "freeze-child":
            with open(f"/proc/{run.pid}/task/{run.pid}/children") as children:
                os.kill(int(children.read().split()[0]), signal.SIGSTOP)
        if "press" in how:
            run.send_signal(signal.SIGINT)
        if how == "freeze and press":
            assert "once more to end at once" in run.stderr.readline() + run.stderr.readline()
            run.send_signal(signal.SIGINT)
        figures, said = run.communicate(timeout=60)
    finally:
        for process in (run, server):
            if process:
                process.kill()
                process.wait()
    assert run.returncode == (130 if "press" in how else 1), (run.returncode, said)
    figures = json.loads(figures)
    return figures[0] if isinstance(figures, list) else figures, said


# If the peer freezes, one second of the run is complete. On a loaded machine the start takes
# longer.
for enough in (0.3, 0.6, 1.2, 2.4) if how == "press" else (3,):
    figures, said = end(enough)
    if figures["iterations"] > 0:
        break
assert figures["interrupted"] is True, figures
assert figures["iterations"] > 0 and figures["elapsed_s"] > 0, figures
assert figures["client"]["cpu_ns"] > 0, figures
unknown = "what the server spent is not known"  # it froze during the first phase
assert figures["server"]["cpu_ns"] > 0 or unknown in figures["notes"], figures
if how == "press":
    assert "ending; once more to end at once" in said, said
    assert any("interrupted" in note for note in figures["notes"]), figures
elif how in ("freeze", "freeze-child"):
    # It may have frozen between two phases, where the watchdog allows more time.
    assert re.match(r"no progress for (0|10).5 s", figures["complaints"][0]), figures
else:
    assert "interrupted twice" in figures["complaints"][0], figures
PYTHON
end() { python3 "$work/end.py" "$programs/cordma-perf" "$@" || fail "ended early: $*"; }

end press --local --duration 600
end press --local --test tag-bw,tag-lat --iterations 100000000000 --wait adaptive
end press --local --load 5000 --duration 600 --wait event
end press --local --test read-lat --load 5000 --duration 600
serve cordma-perf --listen 127.0.0.1:0
end press "$address" --transport tcp --test stream-bi --duration 600
# The interrupted client does not affect the server, which serves the next one.
expect 0 '^send-lat ' cordma-perf "$address" --iterations 10

# If there is no more progress, the completed part is printed: by the watchdog, or at once by a
# second Ctrl-C.
end freeze --watchdog 0.5 --duration 600
end freeze --watchdog 0.5 --duration 600 --load 5000
end freeze-child --local --watchdog 0.5 --duration 600
end "freeze and press" --duration 600 --transport tcp

# Two Ctrl-C end all runs, even if more runs follow and there are no figures to print.
python3 - "$programs/cordma-perf" <<'PYTHON' || fail "a second Ctrl-C does not end a sweep"
import signal
import subprocess
import sys
import time


def takes_interrupts_itself(pid):
    with open(f"/proc/{pid}/status") as status:
        blocked = next(line for line in status if line.startswith("SigBlk"))
    return int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1


run = subprocess.Popen([sys.argv[1], "--local", "--think-us", "5000000,4000000", "--iterations", "100", "--warmup",
                        "0", "--wait", "event"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
try:
    while not takes_interrupts_itself(run.pid):
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    first = run.stderr.readline() + run.stderr.readline()
    assert "once more to end at once" in first, first
    run.send_signal(signal.SIGINT)
    shown, said = run.communicate(timeout=20)
finally:
    run.kill()
assert run.returncode == 130, (run.returncode, said)
PYTHON
