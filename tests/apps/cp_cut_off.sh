# A transfer is cut off at a known point, and the next one continues it. The data in a part file is
# compared before it is kept. A file left by --inplace is not taken for complete. Two transfers to
# one name do not damage each other's part.
source "$(dirname "$0")/expect.sh"
cat > "$work/cut_off.py" <<'PYTHON'
import json, os, signal, stat, subprocess, sys, time

program = sys.argv[1] + "/cordma-cp"
os.chdir(sys.argv[2])
MB = 1 << 20
mark = b"\ncordma-cp --inplace: this file is not whole\n"


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def start(rate, *arguments):
    command = [program, "--chunk", "1M", "--bwlimit", f"{rate}k", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def cut_off(how, prepare, until, *arguments):
    """Ends it by that signal in the middle; what it said. Where it was over before: once more, and slower."""
    for rate in (32768, 8192, 2048):
        prepare()
        process = start(rate, *arguments)
        while process.poll() is None and not until():
            time.sleep(0.001)
        process.send_signal(how)
        errors = process.communicate(timeout=60)[1]
        if process.returncode != 0:
            expected = -how if how == signal.SIGKILL else 20
            check(process.returncode == expected, f"{how} ends it with {process.returncode}: {errors}")
            return errors
    sys.exit(f"FAILED: {arguments} is over before it is seen to begin")


def run(*arguments, code=0):
    done = subprocess.run([program, "--chunk", "1M", *arguments], capture_output=True, timeout=60)
    check(done.returncode == code, f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done


def figures(*arguments):
    return json.loads(run("--json", "-", *arguments).stdout)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, contents):
    with open(path, "wb") as file:
        file.write(contents)


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else -1


large = os.urandom(12 * MB)
write("large", large)
part, state = "out/.large.cordma-part", "out/.large.cordma-state"
copy = ("-t", "large", "out/large")
os.mkdir("out")


def clear():
    for name in os.listdir("out"):
        os.remove("out/" + name)


def half(how):
    return cut_off(how, clear, lambda: size(state) >= 64 + 4 * 32, "--json", "figures", *copy)


# Killed with far less than 64 MiB written: the data is kept, except where it differs from its noted
# checksum.
for damage in ("nothing", "a byte", "cut off", "longer"):
    half(signal.SIGKILL)
    with open(state, "rb") as file:
        file.seek(64)
        noted = [int.from_bytes(file.read(32)[:8], "little") for _ in range(4)]
    # Data that was being written when the last chunk was noted cannot be distinguished from later
    # writes by others.
    while time.time() < os.stat(part).st_ctime + 0.1:
        time.sleep(0.01)
    with open(part, "r+b") as file:
        if damage == "a byte":
            file.seek(noted[1] * MB + 77)
            byte = file.read(1)[0]
            file.seek(noted[1] * MB + 77)
            file.write(bytes([byte ^ 1]))
        if damage == "cut off":
            file.truncate(max(noted[:4]) * MB + 5)
        if damage == "longer":
            file.truncate(40 * MB)
    found = figures(*copy)
    check(read("out/large") == large, f"{damage}: a wrong file")
    check(3 * MB <= found["resumed_bytes"] < 12 * MB, f"{damage}: {found}")
    check(damage != "nothing" or found["resumed_bytes"] >= 4 * MB, f"{damage}: {found}")
    check(os.listdir("out") == ["large"], f"{damage}: something is left: {os.listdir('out')}")

# A target that was copied while it was written: its sidecar lists more chunks than its part
# contains.
def copy_target():
    subprocess.run(["rm", "-rf", "copied"], check=True)
    os.mkdir("copied")
    try:
        write("copied/.large.cordma-part", read(part))
        noted = size(state)
        while 0 < size(state) < noted + 2 * 32:
            time.sleep(0.001)
        write("copied/.large.cordma-state", read(state))
    except FileNotFoundError:  # the transfer ended first; the caller detects this
        pass
    return True


cut_off(signal.SIGKILL, clear, lambda: size(state) >= 64 + 2 * 32 and copy_target(), *copy)
run("-t", "large", "copied/large")
check(read("copied/large") == large, "a sidecar was believed of a part that is not its own")

# The transfer is killed while it compares the existing data. Chunks that were not compared yet are
# not trusted. Most of the file is holes, which take time to read.
hole = 512
far, far_part, far_state = ("-t", "far", "out/far"), "out/.far.cordma-part", "out/.far.cordma-state"
with open("far", "wb") as file:
    file.seek(hole * MB)
    file.write(large)
if os.stat("far").st_blocks * 512 < hole * MB:
    cut_off(signal.SIGKILL, clear, lambda: size(far_state) >= 64 + (hole + 4) * 32, *far)
    noted = [int.from_bytes(read(far_state)[at : at + 8], "little") for at in range(64, size(far_state) - 31, 32)]
    while time.time() < os.stat(far_part).st_ctime + 0.1:
        time.sleep(0.01)
    with open(far_part, "r+b") as file:
        file.seek(max(noted) * MB + 77)
        file.write(bytes([large[(max(noted) - hole) * MB + 77] ^ 1]))
    process = start(32768, *far)
    while process.poll() is None and read(far_state)[40:48] != bytes(8):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    check(process.returncode == 20, f"Ctrl-C ends it with {process.returncode}: {errors}")
    found = figures(*far)
    check(subprocess.run(["cmp", "far", "out/far"]).returncode == 0, "what was not compared was believed")
    check(found["resumed_bytes"] >= hole * MB, f"nothing was kept: {found}")
    os.remove("far")
else:
    print("not checked: what is ended as it is compared, as the file system has no holes")

# SIGTERM and SIGHUP end the transfer as Ctrl-C does.
for how in (signal.SIGTERM, signal.SIGHUP):
    said = half(how)
    check(b"interrupted; the same command goes on" in said and b"8 MiB and more" in said, said)
    with open("figures") as file:
        found = json.load(file)
    check(found["interrupted"] is True and found["exit_code"] == 20, found)
    check(figures(*copy)["resumed_bytes"] >= 4 * MB, "nothing was kept")

# --inplace: a killed transfer leaves a file that is marked as incomplete and is not taken for the
# source's file.
for again in (["--size-only"], ["-u"], ["--ignore-existing"], ["--inplace", "--size-only"]):
    cut_off(
        signal.SIGKILL, lambda: write("out/large", b"old" * 5 * MB), lambda: read("out/large")[:MB] == large[:MB],
        "--inplace", *copy)
    left = read("out/large")
    check(len(left) == len(large) + len(mark) and left.endswith(mark), f"it is not marked: {len(left)}, {left[-50:]}")
    run(*again, *copy)
    check(read("out/large") == large, f"{again}: it was taken for whole")
    check(os.path.getmtime("out/large") == os.path.getmtime("large"), "it has another time")
check(figures("--inplace", *copy)["same"] == 1, "it came again")
# At every moment: after any system call on it, the file is unchanged, complete, or marked as
# incomplete.
def kill_at(call, number, before, more=[]):
    """Before that call on the file or its directory, by its kind; whether there was one. What is to be injected besides."""
    clear()
    os.makedirs("one", exist_ok=True)
    write("one/f", b"n" * 1000)
    os.utime("one/f", (1, 1000))
    if before is not None:
        write("out/f", before)
        os.utime("out/f", (1, 500))
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", os.path.abspath("out/f"), "-P", os.path.abspath("out"), "-e",
               "trace=all", *more, "-e", f"inject={call}:signal=KILL:when={number}", program, "-q", "-rtu", "--inplace", "one/", "out/"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60).returncode != 0


for before in (None, b"o" * 500, b"o" * 1000, b"o" * 1010, b"o" * 1046, b"o" * 1091):
    killed = 0
    for call in ("openat", "linkat", "pwrite64", "ftruncate", "fchmod", "utimensat", "close"):
        number = 1
        while kill_at(call, number, before):
            killed += 1
            number += 1
            run("-rtu", "--inplace", "one/", "out/")
            is_whole = read("out/f") == read("one/f")
            check(is_whole, f"{before and len(before)}: killed at {call} {number - 1} it stays {read('out/f')[-60:]}")
    check(killed >= 4, f"{before and len(before)}: killed only {killed} times")
# The same on a file system without unnamed files (O_TMPFILE).
without = ["-e", "inject=openat:error=EOPNOTSUPP:when=1"]
for call in ("pwrite64", "renameat2", "ftruncate", "utimensat"):
    number = 1
    while kill_at(call, number, None, without):
        number += 1
        run("-rtu", "--inplace", "one/", "out/")
        check(read("out/f") == read("one/f"), f"without names: killed at {call} {number - 1} it stays {read('out/f')[-60:]}")
    check(number > 1 or call not in ("pwrite64", "renameat2"), f"not killed at {call}")
    check(read("out/f") == read("one/f") and os.listdir("out") == ["f"], f"without names: {os.listdir('out')}")
os.remove("out/f")
# A transfer that waits for another one sees the data that the other left, whether or not the file
# existed before. None of that data stays in its own holes.
clear()
write("one/f", b"n" * (4 * MB))
with open("hollow", "wb") as file:
    file.seek(4 * MB - 3)
    file.write(b"end")
number = stopped = 0
while stopped == number:
    number += 1
    write("out/f", b"o")
    write("trace", b"")
    command = ["strace", "-f", "-qq", "-o", "trace", "-P", os.path.abspath("out/f"), "-P", os.path.abspath("out"), "-e", "trace=openat",
               "-e", f"inject=openat:signal=STOP:when={number}", program, "-q", "-I", "--inplace", "hollow", "out/f"]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while b"stopped by SIGSTOP" not in read("trace") and first.poll() is None:
        time.sleep(0.01)
    if first.poll() is None:
        stopped += 1
        subprocess.run([program, "-q", "-I", "--inplace", "one/f", "out/f"], stderr=subprocess.DEVNULL, timeout=60)
        with open(f"/proc/{first.pid}/task/{first.pid}/children") as file:
            os.kill(int(file.read()), signal.SIGCONT)
    check(first.wait(60) == 0, f"stopped at openat {number} it ended with {first.returncode}")
    check(read("out/f") == read("hollow"), f"stopped at openat {number}: what the other one wrote stays")
check(stopped >= 1, "it was not stopped")
# The same for an additional hard link, and for a file that the mark makes as long as its source.
os.makedirs("links")
write("links/a", b"first")
os.link("links/a", "links/b")
write("out/b", b"fir" + mark)
run("-rtHu", "links/", "out/")
check(read("out/b") == b"first", "a further name of what was cut off was passed over")
write("grown", b"g" * (9 + len(mark)))
write("out/grown", b"g" * 9 + mark)
os.utime("out/grown", (1, 1))
run("--size-only", "grown", "out/grown")
check(read("out/grown") == read("grown"), "--size-only takes what was cut off for whole")
write("empty", b"")
run("--inplace", "empty", "out/large")
check(read("out/large") == b"", "an empty file is not empty")
run("--inplace", "-I", "large", "./large", code=23)
check(read("large") == large, "a file that was copied onto itself is another")

# As with rsync, a target that is not a regular file is replaced and not written to. A device named
# as the target stays.
write("victim", b"kept")
write("small", b"small")
for how in (["--inplace"], []):
    os.makedirs("tree", exist_ok=True)
    os.makedirs("odd", exist_ok=True)
    for name in ("link", "fifo", "socket"):
        write("tree/" + name, b"file")
    os.symlink("../victim", "odd/link")
    os.mkfifo("odd/fifo")
    os.mknod("odd/socket", stat.S_IFSOCK | 0o600)
    run("-r", *how, "tree/", "odd/")
    check(all(read("odd/" + name) == b"file" for name in ("link", "fifo", "socket")), "another thing is there")
    check(read("victim") == b"kept", "a link was followed")
    subprocess.run(["rm", "-r", "odd"], check=True)
    os.symlink("/dev/null", "null")
    check(b"null is a device" in run(*how, "small", "null", code=1).stderr, "a device is not named")
    check(os.path.islink("null"), "a name of a device was replaced")
    os.remove("null")

# Two transfers to one name at the same time: the later one fails and names the holder, or waits.
# The first is not disturbed.
write("middle", large[: 2 * MB])
for name, rates, code in (("middle", (4096, 1024, 256), 23), ("large", (24576,), 0)):
    for rate in rates:
        clear()
        first = start(rate, "-t", name, "out/one")
        while first.poll() is None and not os.path.exists("out/.one.cordma-part"):
            time.sleep(0.001)
        second = subprocess.run([program, "-t", name, "out/one"], capture_output=True, text=True, timeout=60)
        errors = first.communicate(timeout=60)[1]
        check(first.returncode == 0, f"the second transfer costs the first its file: {errors}")
        check(read("out/one") == read(name), "another file")
        if second.returncode == code:
            break
    check(second.returncode == code, f"the second ends with {second.returncode}: {second.stderr}")
    told = f"one: another transfer is writing it: process {first.pid}" in second.stderr
    check(code == 0 or told, f"the second is not told who has it: {second.stderr}")
clear()

# Files that a kill has left beside a complete file: the sidecar is removed when the file is found
# to be the same, the others with --delete.
run(*copy)
write(state, b"cordmacp, of no part")
check(figures(*copy)["same"] == 1, "it came again")
check(os.listdir("out") == ["large"], f"beside the file there is {os.listdir('out')}")
write(part, b"theirs")
write(state, b"theirs")
check(figures(*copy)["same"] == 1, "it came again")
check(read(part) == read(state) == b"theirs", "what no transfer has made went")
os.remove(part)
os.remove(state)
os.makedirs(state + "/theirs")
check(figures(*copy)["same"] == 1, "it came again")
check(os.path.isdir(state + "/theirs"), "what no transfer has made went")
subprocess.run(["rm", "-r", state], check=True)
# A part that has since become an additional hard link or a directory is not continued.
os.makedirs("named/large.d")
write("named/large", large)
os.link("named/large", "named/other")
def leave(name):
    half(signal.SIGKILL)
    os.rename(part, f"out/.{name}.cordma-part")
    os.rename(state, f"out/.{name}.cordma-state")
for name in ("other", "large.d"):
    leave(name)
    os.link("large", "out/.large.cordma-part")
    run("-rtH", "--delete", "named/", "out/")
    check(sorted(os.listdir("out")) == ["large", "large.d", "other"], f"beside {name} there is {os.listdir('out')}")
    subprocess.run(["rm", "-r", "out/large.d"], check=True)
half(signal.SIGKILL)
os.makedirs("empty tree")
os.symlink("../large", "empty tree/link")
run("-rtL", "--existing", "--delete", "--exclude", "link", "empty tree/", "out/")
check(not os.path.exists(part), "a part of what is in no source stays")
half(signal.SIGKILL)
os.makedirs("whole")
write("whole/large", large)
run("-rt", "--existing", "--delete", "whole/", "out/")
check(figures(*copy)["resumed_bytes"] >= 4 * MB, "what may be gone on with went")
for how in ([], ["--inplace"]):
    half(signal.SIGKILL)
    os.makedirs("changed", exist_ok=True)
    write("changed/large", b"short by now")
    run("-rt", "--delete", *how, "changed/", "out/")
    check(os.listdir("out") == ["large"], f"{how}: beside the file there is {os.listdir('out')}")
clear()
PYTHON
python3 "$work/cut_off.py" "$(realpath "$programs")" "$work"
