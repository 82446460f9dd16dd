# cordma-cp is killed, on either side and at any moment. The target is then the old or the new file,
# and the same command continues the transfer. CORDMA_TEST_KILLS is the number of kills,
# CORDMA_TEST_SEED seeds the random numbers, and CORDMA_TEST_MIB is the size of the longest file.
# This must exceed the 64 MiB after which progress is noted. With CORDMA_TEST_ROUNDS=few, the rounds
# are the fewest and shortest that still cover each case.
transport=$2
source "$(dirname "$0")/expect.sh"

cat > "$work/kill.py" <<'PYTHON'
import json
import os
import random
import signal
import subprocess
import sys
import time

programs, transport, work, rounds = sys.argv[1:]
few = rounds == "few"
kills = int(os.environ.pop("CORDMA_TEST_KILLS", "4" if few else "8"))
seed = int(os.environ.pop("CORDMA_TEST_SEED", str(random.randrange(1 << 32))))
whole = int(os.environ.pop("CORDMA_TEST_MIB", "80" if few else "160"))
host = os.environ.get("RDMA_HOST_SELF", "127.0.0.1")  # an address that the transport reaches
chance = random.Random(seed)
MB = 1 << 20
box, tree = work + "/box", work + "/tree"
os.makedirs(box)
os.makedirs(tree + "/sub")


# No two chunks of the file are the same, and the file differs from its previous version.
def write(name, size):
    block = chance.randbytes(min(size, MB))
    with open(f"{tree}/{name}", "wb") as file:
        for at in range(0, size, MB):
            file.write((at.to_bytes(8) + block[8:])[: size - at])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def serve():
    daemon = subprocess.Popen([programs + "/cordma-cpd", "--listen", host + ":0", "--module-rw", "box=" + box,
                               "--transport", transport], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return daemon, daemon.stdout.readline().split(":")[-1].strip()


def command(port, push):
    here, there = tree + "/", host + ":box/got/"
    ends = [here, there] if push else [host + ":box/sent/", work + "/pulled/"]
    return [programs + "/cordma-cp", "-a", "--chunk", "1M", "--transport", transport, "--port", port, "--reconnect", "off", "--json", work + "/json", *ends]


def same(ours, theirs):
    for at, _, files in os.walk(ours):
        for name in files:
            path = os.path.join(at, name)
            if read(path) != read(os.path.join(theirs, os.path.relpath(path, ours))):
                return False
    return True


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}; CORDMA_TEST_SEED={seed} CORDMA_TEST_KILLS={kills} CORDMA_TEST_MIB={whole}")


write("sub/large", whole * MB // 4 + 12345)
for i in range(200):
    write(f"sub/small {i}", chance.randrange(0, 40000))
write("middle", whole * MB // 32)
subprocess.run(["cp", "-a", tree, box + "/sent"], check=True)
daemon, port = serve()
resumed = 0
try:
    began = time.monotonic()
    subprocess.run(command(port, True), check=True, stdout=subprocess.DEVNULL, timeout=120)
    takes = time.monotonic() - began
    subprocess.run(["rm", "-rf", box + "/got"], check=True)
    for round in range(kills):
        push = chance.random() < 0.5
        source, target = (tree, box + "/got") if push else (box + "/sent", work + "/pulled")
        if chance.random() < 0.5:  # an old file exists
            os.makedirs(target + "/sub", exist_ok=True)
            with open(target + "/sub/large", "wb") as file:
                file.write(b"old")
        else:
            subprocess.run(["rm", "-rf", target], check=True)
        old = os.path.exists(target + "/sub/large")
        began = time.monotonic()
        run = subprocess.Popen(command(port, push), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        moment = takes * chance.random()
        while time.monotonic() - began < moment and run.poll() is None:
            time.sleep(0.001)
        victim = chance.choice(["client", "daemon"])
        (run if victim == "client" else daemon).kill()
        code = run.wait(timeout=60)
        expect(victim == "client" or code in (0, 10, 12), f"a client whose daemon is killed ends with {code}")
        large = target + "/sub/large"
        if os.path.exists(large):
            now = read(large)
            expect(now == read(source + "/sub/large") or (old and now == b"old"), f"round {round}: a mix of old and new")
        if victim == "daemon":
            daemon.wait()
            daemon, port = serve()
        again = subprocess.run(command(port, push), capture_output=True, text=True, timeout=120)
        expect(again.returncode == 0, f"round {round}: going on ends with {again.returncode}: {again.stderr}")
        with open(work + "/json") as file:
            resumed += json.load(file)["resumed_bytes"]
        expect(same(source, target), f"round {round}: the target is not as the source")
        left = subprocess.run(["find", target, "-name", "*cordma*"], capture_output=True, text=True).stdout
        expect(left == "", f"round {round}: something is left over: {left}")
        subprocess.run(["rm", "-rf", target], check=True)

    # Killed near its end, the transfer has little left to copy. A change of the source in the
    # meantime is detected.
    most = whole * 25 // 32
    write("sub/large", whole * MB)
    for change in (False, True):
        # If the file was complete before the signal arrived, it is tried again with a lower limit.
        for limit in ("1G", "500M", "200M", "100M"):
            subprocess.run(["rm", "-rf", box + "/got"], check=True)
            run = subprocess.Popen([*command(port, True), "--bwlimit", limit])
            part = box + "/got/sub/.large.cordma-state"
            began = time.monotonic()
            while run.poll() is None and not (os.path.exists(part) and os.path.getsize(part) >= 64 + 32 * most):
                expect(time.monotonic() - began < 60, "it does not come to its half")
                time.sleep(0.001)
            run.send_signal(signal.SIGINT)
            code = run.wait(timeout=60)
            if not os.path.exists(box + "/got/sub/large"):
                expect(code == 20, f"Ctrl-C ends it with {code}, not 20")
                break
            expect(code in (0, 20), f"it ends with {code} where the file is whole")
        expect(not os.path.exists(box + "/got/sub/large"), "no signal came before the file was whole")
        if change:
            write("sub/large", whole * MB)
        subprocess.run(command(port, True), check=True, stdout=subprocess.DEVNULL)
        with open(work + "/json") as file:
            figures = json.load(file)
        expect(same(tree, box + "/got"), "the target is not as the source")
        if change:
            expect(figures["resumed_bytes"] == 0, f"chunks of another file were taken for its own: {figures}")
        else:
            expect(figures["resumed_bytes"] >= most * MB, f"what was there came again: {figures}")
        subprocess.run(["rm", "-rf", box + "/got"], check=True)
finally:
    daemon.kill()
print(f"{kills} kills, {resumed / MB:.0f} MiB did not have to come again, seed {seed}")
PYTHON
python3 "$work/kill.py" "$programs" "$transport" "$work" "$rounds"
