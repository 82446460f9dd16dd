# A transfer loses its connection halfway. cordma-cp reconnects and continues as long as it makes progress. It does not
# retry a refusal, nor a transfer that cannot be resumed.
transport=$2
source "$(dirname "$0")/expect.sh"
cat > "$work/reconnect.py" <<'PYTHON'
import atexit, json, os, re, shutil, signal, socket, subprocess, sys, threading, time

programs, transport, work = sys.argv[1:]
programs = os.path.realpath(programs)
os.chdir(work)
MB = 1 << 20
SMALL = 40
daemon = port = None
everything = []
atexit.register(lambda: [process.kill() for process in everything])


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def wait_for(condition, what, process=None, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{seconds} s, and not: {what}")
        check(process is None or process.poll() is None, f"it ended before: {what}: {read('said')}{read('lines')}")
        time.sleep(0.005)


def serve(*more):
    """Starts the daemon, on its earlier port if it had one, and waits until it listens."""
    global daemon, port
    listen = f"127.0.0.1:{port or 0}"
    daemon = subprocess.Popen([programs + "/cordma-cpd", "--listen", listen, "--transport", transport, *(more or ("--module-rw", "box=box"))],
                              stdout=subprocess.PIPE, stderr=open("served", "wb"), text=True)
    everything.append(daemon)
    said = daemon.stdout.readline()
    check(said.startswith("listening on "), f"it does not listen: {said}{read('served')}")
    port = int(said.strip().rpartition(":")[2])


def end_daemon(how=signal.SIGKILL):
    daemon.send_signal(how)
    daemon.wait(30)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, contents):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(contents)


def size(path):
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return -1


def tree_of(root):
    found = {}
    for at, directories, files in os.walk(root):
        for name in files:
            path = os.path.join(at, name)
            found[os.path.relpath(path, root)] = read(path)
        for name in directories:
            found[os.path.relpath(os.path.join(at, name), root)] = None
    return found


def clear():
    for path in ("box/got", "got"):
        shutil.rmtree(path, ignore_errors=True)


class transfer:
    """Copies `tree` to or from the daemon, at a rate that takes most of a second."""

    def __init__(self, push, *options, prepare=None, at=None, input=None, ends=None, rate=12288):
        self.target = "box/got" if push else "got"
        there = "127.0.0.1:box/"
        ends = ends or (["tree/", there + "got/"] if push else [there + "sent/", "got/"])
        self.command = [programs + "/cordma-cp", "--transport", transport, "--port", str(at or port), "--chunk", "64k", "--json", "json", *options, *ends]
        self.prepare, self.input, self.rate = prepare, input, rate
        self.start()

    def start(self):
        clear()
        if self.prepare:
            self.prepare()
        self.process = subprocess.Popen([*self.command, "--bwlimit", f"{self.rate}k"], stdin=self.input and os.open(self.input, os.O_RDONLY),
                                        stdout=open("lines", "wb"), stderr=open("said", "wb"))
        everything.append(self.process)

    def until(self, condition):
        """Waits for the condition. A transfer that ends before is repeated at a quarter of the rate."""
        end = time.monotonic() + 60
        while not condition():
            check(time.monotonic() < end, f"it does not come to its half: {read('said')}")
            if self.process.poll() is not None:
                check(self.process.returncode in (0, 25) and self.rate > 100, f"it ended before it was cut off: {read('said')}{read('lines')}")
                self.rate //= 4
                self.start()
            time.sleep(0.002)

    def until_half(self, whole="a15"):
        """Waits until the file `whole` is finished and the state of the long file has grown twice."""
        state = self.target + "/.large.cordma-state"
        while True:
            self.until(lambda: size(state) > 64 and os.path.exists(f"{self.target}/{whole}"))
            begun, noted = self.process, size(state)
            self.until(lambda: size(state) > noted + 16 * 32)
            if begun is self.process:
                return

    def until_lost(self, times=1):
        wait_for(lambda: read("said").count(b"connection lost: ") == times, f"it says so: {read('said')}", self.process)

    def end(self, code, *said):
        got = self.process.wait(30)
        text = read("said").decode()
        check(got == code, f"ended with {got}, not {code}: {text}")
        for part in said:
            check(re.search(part, text), f"it does not say {part!r}: {text}")
        with open("json") as file:
            self.figures = json.load(file)
        check(self.figures["exit_code"] == code, self.figures)
        return text

    def cut_off(self, *daemon_options):
        """Kills the daemon and starts another one."""
        end_daemon()
        self.until_lost()
        serve(*daemon_options)


def is_as(source, target, what):
    check(tree_of(source) == tree_of(target), f"{what}: the target is not as the source: {set(tree_of(source)) ^ set(tree_of(target))}")


os.makedirs("box")
for i in range(SMALL):
    write(f"tree/a{i:02}", bytes([i]) * 4000)
write("tree/large", os.urandom(8 * MB))
write("tree/sub/middle", os.urandom(MB))
write("tree/sub/z", b"last")
subprocess.run(["cp", "-a", "tree", "box/sent"], check=True)
BYTES = sum(len(c) for c in tree_of("tree").values() if c is not None)
FILES = SMALL + 3
serve()

# The transfer continues: no finished file is copied again, with or without its time, and each file counts once.
for push in (True, False):
    for options in (["-a"], ["-rv"], ["-rIH", "--ignore-existing"]) if push else (["-rv"], ["-rc"]):
        what = f"{'push' if push else 'pull'} {options}"
        run = transfer(push, *options)
        run.until_half()
        before = os.stat(run.target + "/a00").st_ino
        run.cut_off()
        said = run.end(0)
        is_as("tree" if push else "box/sent", run.target, what)
        check(said.count("connection lost: ") == 1 and said.count("\n") == 1, f"{what}: {said}")
        check(os.stat(run.target + "/a00").st_ino == before, f"{what}: what was there came again")
        f = run.figures
        check(f["reconnects"] == 1 and 64 << 10 < f["resumed_bytes"] < BYTES and f["directories"] == 1, f"{what}: {f}")
        # A file that was finished just before the kill may count as the same: the client finds it by its time or name.
        check(FILES - 32 <= f["files"] <= FILES and (f["files"] + f["same"] == FILES or "--ignore-existing" in options), f"{what}: {f}")
        check(BYTES - 32 * 4000 <= f["bytes"] + f["resumed_bytes"] <= BYTES, f"{what}: {f}, not {BYTES}")
        lines = read("lines").decode().split("\n")
        paths = [l.split()[1] for l in lines if l.startswith(("new ", "updated ", "metadata "))]
        check(len(paths) == len(set(paths)) and (options != ["-rv"] or len(paths) >= FILES - 32), f"{what}: {lines}")
        check(options[0] == "-a" or any(", 1 reconnect" in l for l in lines), f"{what}: {lines}")

# SIGTERM has the same effect as a kill. Hard links are kept, files that the source lacks are deleted, and a list from
# standard input is read once.
os.link("tree/a00", "tree/b")
run = transfer(True, "-rH", "--delete", prepare=lambda: write("box/got/gone", b"x"))
run.until_half()
end_daemon(signal.SIGTERM)
run.until_lost()
serve()
run.end(0)
is_as("tree", "box/got", "--delete")
check(run.figures["deleted"] == 1 and os.path.samefile("box/got/a00", "box/got/b"), run.figures)
# A finished file was replaced before the second connection: hard links of its source do not link to it.
run = transfer(True, "-rHu")
run.until_half()
end_daemon()
run.until_lost()
write("box/got/a00", b"newer")
write("box/got/b", b"?" * 4000)
os.utime("box/got/b", (1, 1))
serve()
run.end(0)
check(read("box/got/a00") == b"newer" and read("box/got/b") == read("tree/b"), "-H -u: another file")
os.remove("tree/b")
write("list", b"large\na00\nsub/z\n")
run = transfer(True, "-a", "--files-from", "-", input="list")
run.until_half(whole="")
run.cut_off()
run.end(0)
check(set(tree_of("box/got")) == {"large", "a00", "sub", "sub/z"}, f"--files-from: {set(tree_of('box/got'))}")
check(run.figures["resumed_bytes"] > 0, run.figures)
# --inplace starts a file again, and --max-delete limits all connections together.
run = transfer(True, "-r", "--inplace", "--delete", "--max-delete=2", prepare=lambda: [write(f"box/got/gone {i}", b"x") for i in range(5)])
run.until(lambda: size("box/got/large") > 8 * MB and os.path.exists("box/got/a00"))
end_daemon()
run.until_lost()
serve()
run.end(25, "max-delete limit .3 skipped")
for i in range(5):
    if os.path.exists(f"box/got/gone {i}"):
        os.remove(f"box/got/gone {i}")
is_as("tree", "box/got", "--inplace")

# The number of deletions is unknown after a kill, so --max-delete ends the transfer.
def many():
    os.makedirs("few/many", exist_ok=True)
    for i in range(6000):
        write(f"box/got/many/{i}", b"")
    many.begun = os.stat("box/got/many").st_mtime_ns


for attempt in range(5):
    run = transfer(True, "-r", "--delete", "--max-delete=5900", prepare=many, ends=["few/", "127.0.0.1:box/got/"])
    run.until(lambda: os.stat("box/got/many").st_mtime_ns != many.begun)
    end_daemon()
    serve()
    if run.process.wait(30) != 25:  # it had not ended before it was killed
        break
run.end(10, "no reconnect: how much was deleted is not known")

# A daemon that stops for longer than --timeout and then continues ends the earlier session.
run = transfer(True, "-a", "--timeout", "1")
run.until_half()
daemon.send_signal(signal.SIGSTOP)
run.until_lost()
daemon.send_signal(signal.SIGCONT)
run.end(0, "nothing was heard of the other side for 1 s")
is_as("tree", "box/got", "--timeout")

# The daemon stays away: the exit code is 10, and the message names the loss and the attempts.
for how in ("off", "1"):
    run = transfer(True, "-a", "--reconnect", how)
    run.until_half()
    end_daemon()
    said = run.end(10, "connection_reset" if how == "off" else "connection_reset.*no progress for 1s, and [0-9]+ attempts")
    check(said.count("connection lost: ") == (0 if how == "off" else 1), said)
    serve()

# Never retried: a refusal by the new daemon, an interrupted transfer, and standard input.
write("token", b"a secret of somebody's\n")
for options, why in ((("--module-rw", "box=box", "--token-file", "token"), 'no module "box"'), (("--module-rw", "other=box"), 'no module "box"')):
    run = transfer(True, "-a")
    run.until_half()
    run.cut_off(*options)
    run.end(5, why + ".*the connection was lost before: .*connection_reset")
    end_daemon()
    serve()
for push, how in ((False, signal.SIGTERM), (True, signal.SIGINT)):
    run = transfer(push, "-a")
    run.until_half()
    end_daemon()
    run.until_lost()
    run.process.send_signal(how)
    run.end(20, "interrupted; the same command goes on")
    serve()
os.mkfifo("fifo")
keeper = os.open("fifo", os.O_RDWR)
run = transfer(True, input="fifo", ends=["-", "127.0.0.1:box/input"])
wait_for(lambda: os.path.exists("box/.input.cordma-part") or os.write(keeper, b"x" * 65536) == 0, "it is begun", run.process)
end_daemon()
said = run.end(10, "no reconnect: standard input and output cannot be resumed")
os.close(keeper)
check("connection lost: " not in said, said)
serve()
first = subprocess.run([programs + "/cordma-cp", "--transport", transport, "--port", "1", "tree/a00", "127.0.0.1:box/"], capture_output=True)
check(first.returncode == 10 and b"connection lost" not in first.stderr, f"the first connection: {first}")
for how in ("x", "-1", "1.5", "", "offf", "99999999999", "1d"):
    bad = subprocess.run([programs + "/cordma-cp", "--reconnect=" + how, "tree/a00", "a"], capture_output=True, text=True)
    check(bad.returncode == 1 and "--reconnect" in bad.stderr and bad.stderr.count("\n") == 1, f"{how}: {bad}")
for how in ("0", "off", "60", "2m", "2min", "1h", "100ms"):
    good = subprocess.run([programs + "/cordma-cp", "-q", "--reconnect", how, "tree/a00", "a"], capture_output=True, text=True)
    check(good.returncode == 0, f"{how}: {good}")


# The daemon does not notice a cut wire. Its session, with its open files, ends when the client reconnects.
class wire:
    """A proxy. cut() ends the client's connections and leaves the daemon's open."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.clients, self.daemons = [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", port))
            self.clients.append(client)
            self.daemons.append(server)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass

    def cut(self):
        for client in self.clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:  # the connection had already ended
                pass


between = wire()
run = transfer(True, "-a", at=between.port, ends=["tree/sub/middle", "127.0.0.1:box/got/"], rate=1024)
run.until(lambda: size("box/got/.middle.cordma-part") > 0)
between.cut()
run.until_lost()
run.end(0)
check(read("box/got/middle") == read("tree/sub/middle"), "it is another file")
wait_for(lambda: b"its client has connected again" in read("served"), f"the earlier session is ended: {read('served')}")
PYTHON
python3 "$work/reconnect.py" "$programs" "$transport" "$work"
