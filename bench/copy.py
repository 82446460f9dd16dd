#!/usr/bin/env python3
"""cordma-cp beside cp, rsync and itself: interleaved, medians, one table.

    python3 bench/copy.py --build build-bench            everything: about a quarter of an hour
    python3 bench/copy.py --build build-bench --size 256M --repetitions 1    does it all work?
    python3 bench/copy.py --build build-bench --only tree

What is copied lies in memory (/dev/shm, or --memory DIR), save where a row says disk (--disk DIR). rsync runs as a
daemon and copies whole files (-W), as its users have it on a fast network. Every copy goes to a target that was
removed before, unless the row says that there is one; the time is that of the command, beginning and end included.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TICKS = os.sysconf("SC_CLK_TCK")


def bytes_of(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text}: a number with K, M or G")
    return int(match[1]) * UNITS.get(match[2], 1)


def cpu_of(pid):
    """Seconds of a process and of those of its children that have ended."""
    with open(f"/proc/{pid}/stat") as stat:
        words = stat.read().rpartition(")")[2].split()
    return sum(int(w) for w in words[11:15]) / TICKS


def peak_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


class Run:
    """What one command took: seconds, and CPU seconds of both sides."""

    def __init__(self, command, daemon=None, ends_with=(0,)):
        before = cpu_of(daemon.pid) if daemon else 0
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.monotonic() - began
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        if code not in ends_with:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {code}: {said.decode(errors='replace')}")
        self.cpu = usage.ru_utime + usage.ru_stime
        if daemon:
            time.sleep(0.05)  # its child must be counted, too
            self.cpu += cpu_of(daemon.pid) - before


class Ground:
    """Files, daemons, and how each of the programs is told to copy."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.bin = pathlib.Path(arguments.build) / "bin"
        self.fast = pathlib.Path(arguments.memory) / f"cordma-cp-bench-{os.getpid()}"
        self.slow = pathlib.Path(arguments.disk) / f"cordma-cp-bench-{os.getpid()}"
        for place in (self.fast, self.slow):
            place.mkdir(parents=True)
        (self.fast / "rsync").mkdir()
        (self.fast / "cordma").mkdir()
        self.rsyncd = self.cpd = None

    def start(self):
        config = self.fast / "rsyncd.conf"
        config.write_text(f"use chroot = no\n[m]\npath = {self.fast}/rsync\nread only = no\nuid = {os.getuid()}\n"
                          f"gid = {os.getgid()}\n")
        self.rsync_port = 18730
        self.rsyncd = subprocess.Popen(["rsync", "--daemon", "--no-detach", f"--config={config}", "--address=127.0.0.1",
                                        f"--port={self.rsync_port}"])
        self.cpd = subprocess.Popen([self.bin / "cordma-cpd", "--listen", "127.0.0.1:0", "--module-rw",
                                     f"m={self.fast}/cordma"], stdout=subprocess.PIPE, text=True)
        self.cp_port = self.cpd.stdout.readline().strip().rpartition(":")[2]
        time.sleep(0.3)

    def stop(self):
        for daemon in (self.rsyncd, self.cpd):
            if daemon:
                daemon.kill()
                daemon.wait()
        for place in (self.fast, self.slow):
            shutil.rmtree(place, ignore_errors=True)

    def clear(self, *names):
        for name in names:
            path = self.fast / name
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()

    def file(self, name, size, place=None):
        path = (place or self.fast) / name
        with open(path, "wb") as out:
            while size > 0:
                size -= out.write(os.urandom(min(size, 16 << 20)))
        return path

    def rsync(self, source, target):
        return Run(["rsync", "-aW", source, f"rsync://127.0.0.1:{self.rsync_port}/m/{target}"], self.rsyncd)

    def cordma(self, source, target, *more, ends_with=(0,)):
        return Run([self.bin / "cordma-cp", "-aq", "--transport", "tcp", "--port", self.cp_port, *more, source,
                    f"127.0.0.1:m/{target}"], self.cpd, ends_with)

    def here(self, source, target, *more):
        return Run([self.bin / "cordma-cp", "-aq", *more, source, target])


def interleaved(arguments, *series):
    """Each series once, again and again: a list of runs of each."""
    runs = [[] for _ in series]
    for _ in range(arguments.repetitions):
        for one, into in zip(series, runs):
            into.append(one())
    return runs


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ours, beside, theirs, sign, goal, unit="s", more_is_better=True):
        """The ratio is theirs to ours where it is a speed, else ours to theirs."""
        mine = statistics.median(ours)
        other = statistics.median(theirs) if theirs else None
        ratio = None if other is None else other / mine if more_is_better else mine / other
        judged = mine if ratio is None else ratio
        reached = judged >= goal if sign == ">=" else judged <= goal
        self.rows.append({"what": what, "cordma": mine, "beside": beside, "theirs": other, "unit": unit, "ratio": ratio,
                          "goal": f"{sign} {goal:g}", "reached": reached, "ours": ours, "all_theirs": theirs})
        print(self.line(self.rows[-1]), file=sys.stderr, flush=True)

    @staticmethod
    def line(row):
        theirs = "" if row["theirs"] is None else f"{row['theirs']:.3g} {row['unit']}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f} x"
        return (f"| {row['what']} | {row['cordma']:.3g} {row['unit']} | {row['beside']} | {theirs} | {ratio} | "
                f"{row['goal']} | {'yes' if row['reached'] else 'no'} |")

    def markdown(self):
        head = "| what | cordma-cp | beside it | its figure | ratio | goal | reached |\n|---|---|---|---|---|---|---|\n"
        return head + "\n".join(self.line(row) for row in self.rows) + "\n"


def seconds(runs):
    return [r.seconds for r in runs]


def large_file(ground, table):
    size = ground.arguments.size
    name = f"{size >> 20} MiB file"
    big = ground.file("big", size)

    def cp():
        ground.clear("copy")
        return Run(["cp", big, ground.fast / "copy"])

    def shm():
        ground.clear("copy")
        return ground.here(big, ground.fast / "copy", "--transport", "shm")

    theirs, ours = interleaved(ground.arguments, cp, shm)
    ground.clear("copy")
    table.add(f"{name}, shm", seconds(ours), "cp", seconds(theirs), ">=", 1.0)

    def rsync_new():
        ground.clear("rsync/big")
        return ground.rsync(big, "big")

    def cordma_new():
        ground.clear("cordma/big")
        return ground.cordma(big, "big")

    theirs, ours = interleaved(ground.arguments, rsync_new, cordma_new)
    table.add(f"{name}, tcp, new target", seconds(ours), "rsync daemon -W", seconds(theirs), ">=", 1.2)
    per_gb = 1e9 / size
    table.add("CPU seconds per GB, both sides", [r.cpu * per_gb for r in ours], "rsync daemon -W",
              [r.cpu * per_gb for r in theirs], "<=", 0.7, more_is_better=False)

    def touched(path):
        os.utime(path)  # otherwise there would be nothing to do

    def rsync_over():
        touched(ground.fast / "rsync/big")
        return ground.rsync(big, "big")

    def cordma_over():
        touched(ground.fast / "cordma/big")
        return ground.cordma(big, "big")

    theirs, ours = interleaved(ground.arguments, rsync_over, cordma_over)
    table.add(f"{name}, tcp, over a target", seconds(ours), "rsync daemon -W", seconds(theirs), ">=", 1.5)
    ground.clear("rsync/big", "cordma/big")
    resumed(ground, table, big)
    pool = 16 << 20
    table.add("peak memory of the daemon above its pool", [(peak_of(ground.cpd.pid) - pool) / (1 << 20)], "-", [], "<=", 64,
              unit="MiB")
    ground.clear("big", "cordma/big")


def resumed(ground, table, big):
    size = big.stat().st_size
    whole, rest = [], []
    for _ in range(ground.arguments.repetitions):
        ground.clear("cordma/big")
        whole.append(ground.cordma(big, "big").seconds)
        ground.clear("cordma/big")
        process = subprocess.Popen([ground.bin / "cordma-cp", "-aq", "--transport", "tcp", "--port", ground.cp_port, big,
                                    "127.0.0.1:m/big"])
        state = ground.fast / "cordma/.big.cordma-state"
        # 32 bytes per chunk of 512 KiB, behind a head of 64.
        while process.poll() is None and not (state.exists() and state.stat().st_size >= 64 + 32 * (size >> 19) * 0.9):
            time.sleep(0.0005)
        process.kill()
        process.wait()
        rest.append(ground.cordma(big, "big").seconds)
    ratios = [r / w for r, w in zip(rest, whole)]
    table.add("resume after kill -9 at 90 %, beside the whole", ratios, "-", [], "<=", 0.15, unit="x")


def disk(ground, table):
    size = ground.arguments.size
    big = ground.file("big", size, ground.slow)
    copy = ground.slow / "copy"

    def cp():
        copy.unlink(missing_ok=True)
        os.sync()
        return Run(["sh", "-c", f"cp '{big}' '{copy}' && sync '{copy}'"])

    def cordma():
        copy.unlink(missing_ok=True)
        os.sync()
        return ground.here(big, copy, "--fsync", "--transport", "shm")

    theirs, ours = interleaved(ground.arguments, cp, cordma)
    table.add(f"{size >> 20} MiB file, disk to disk, synced", seconds(ours), "cp + sync", seconds(theirs), ">=", 0.95)
    shutil.rmtree(ground.slow)
    ground.slow.mkdir()


def compare_trees(ground, table, what, tree, goal):
    def rsync():
        ground.clear("rsync/tree")
        return ground.rsync(f"{tree}/", "tree/")

    def cordma():
        ground.clear("cordma/tree")
        return ground.cordma(f"{tree}/", "tree/")

    def cp():
        ground.clear("copy")
        return Run(["cp", "-a", tree, ground.fast / "copy"])

    rsyncs, ours, cps = interleaved(ground.arguments, rsync, cordma, cp)
    left = subprocess.run(["rsync", "-aniHc", "--delete", f"{tree}/", f"{ground.fast}/cordma/tree/"],
                          capture_output=True, text=True).stdout
    if left:
        raise RuntimeError(f"{what}: the copy differs: {left[:1000]}")
    table.add(f"{what}, tcp", seconds(ours), "rsync daemon -aW", seconds(rsyncs), ">=", goal)
    table.add(f"{what}, tcp", seconds(ours), "cp -a (no goal)", seconds(cps), ">=", 0)
    ground.clear("rsync/tree", "cordma/tree", "copy")


def small_tree(ground, table):
    tree = ground.fast / "tree"
    for d in range(100):
        (tree / f"d{d}").mkdir(parents=True)
        for f in range(200):
            (tree / f"d{d}" / f"f{f}").write_bytes(os.urandom(4096))
    compare_trees(ground, table, "tree of 20,000 x 4 KiB", tree, 2.5)
    ground.clear("tree")


def real_tree(ground, table):
    tree = ground.fast / "tree"
    tree.mkdir()
    for part in ("/usr/include", "/usr/share/doc"):
        subprocess.run(["cp", "-a", part, tree], check=True)
    compare_trees(ground, table, "tree of /usr/include and /usr/share/doc", tree, 2)
    ground.clear("tree")


PARTS = {"file": large_file, "disk": disk, "tree-small": small_tree, "tree-real": real_tree}


def conditions():
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    model = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    rsync = subprocess.run(["rsync", "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "commit": commit.stdout.strip(), "cpu": model,
            "cpus": os.cpu_count(), "kernel": os.uname().release, "rsync": rsync, "load": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build-bench", help="where bin/cordma-cp is")
    parser.add_argument("--size", type=bytes_of, default=bytes_of("4G"), help="of the large file")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", help=f"parts whose name matches: {', '.join(PARTS)}")
    parser.add_argument("--memory", default="/dev/shm", metavar="DIR")
    parser.add_argument("--disk", default=ROOT / "out", metavar="DIR")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    arguments = parser.parse_args()
    if not shutil.which("rsync"):
        parser.error("rsync is missing: apt-get install rsync")
    if not (pathlib.Path(arguments.build) / "bin/cordma-cp").exists():
        parser.error(f"{arguments.build}/bin/cordma-cp is missing: build it, or say --build DIR")
    what = conditions()
    table = Table()
    ground = Ground(arguments)
    try:
        ground.start()
        for name, part in PARTS.items():
            if re.search(arguments.only, name):
                part(ground, table)
    finally:
        ground.stop()
    text = "".join(f"* {key}: {value}\n" for key, value in what.items()) + "\n" + table.markdown()
    print(text)
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(text)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"conditions": what, "rows": table.rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
