#!/usr/bin/env python3
"""cordma-kv beside redis-server and its own other door: interleaved, medians, one table.

    python3 bench/kv.py --build build-bench              everything: about half an hour, on a machine that is quiet
    python3 bench/kv.py --build build-bench --quick      does it all work? no figures to keep
    python3 bench/kv.py --build build-bench --only 'native|memory'

Servers keep nothing on a disk, run alone on --server-cpus, and are never busy at the same time; who asks them runs on
--client-cpus. Parts: redis-benchmark (both servers, GET and SET, with the server's CPU time per request), memory
(used_memory of many records), idle (resident memory of 9,900 silent clients, both doors), native (the native protocol
over shm, both sides polling), doors (native beside RESP, the same engine), ycsb (YCSB's core workloads by the driver of
cordma-kv-cli, over shm, tcp and RESP, and redis-server through the same), verbs (beside tcp, where RDMA_HOST_SELF names
an RDMA device's address; in a virtual machine: bash tests/soft-roce/run.sh --timeout 600 -- python3 bench/kv.py
--build build-clang --only verbs --records 20000 --seconds 2), commands (what single ones cost a server: HSCAN and UNLINK of
a million fields, SETs that wait for the disk beside 5,000 silent clients), small-hashes (resident memory, beside maxmemory
and after most were deleted).
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from key_value import figures, parts, servers

ROOT = pathlib.Path(__file__).resolve().parent.parent


def conditions(arguments):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    model = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout.strip()
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "commit": commit.stdout.strip(), "cpu": model,
            "cpus": os.cpu_count(), "kernel": os.uname().release, "redis": redis, "load": os.getloadavg()[0],
            "server_cpus": arguments.server_cpus, "client_cpus": arguments.client_cpus, "repetitions": arguments.repetitions,
            "seconds": arguments.seconds, "records": arguments.records}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build-bench", type=pathlib.Path, help="where bin/cordma-kv is")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement by cordma-kv-cli")
    parser.add_argument("--requests", type=int, default=200_000, help="of each by redis-benchmark; five times as many with -P 16, and four times with --threads 2")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--memory-records", type=int, default=10_000_000)
    parser.add_argument("--server-cpus", default="0", help="as taskset -c takes them; empty: anywhere")
    parser.add_argument("--client-cpus", default="1")
    parser.add_argument("--only", default="", help=f"parts whose name matches: {', '.join(parts.PARTS)}")
    parser.add_argument("--quick", action="store_true", help="one repetition of little")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repetitions, arguments.seconds, arguments.requests = 1, 0.3, 20_000
        arguments.records, arguments.memory_records = 20_000, 200_000
    for program, package in (("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("taskset", "util-linux")):
        if not shutil.which(program):
            parser.error(f"{program} is missing: apt-get install {package}")
    for program in ("cordma-kv", "cordma-kv-cli"):
        if not (arguments.build / "bin" / program).exists():
            parser.error(f"{arguments.build}/bin/{program} is missing: build it, or say --build DIR")
    return arguments


def main():
    arguments = parse()
    under = conditions(arguments)
    programs = (arguments.build / "bin").resolve()
    ground = parts.Ground(programs, arguments.server_cpus, servers.Client(arguments.client_cpus, programs), arguments.repetitions,
                          arguments.seconds, arguments.records, arguments.memory_records, arguments.requests)
    rows, failed = [], []
    for name, part in parts.PARTS.items():
        if not re.search(arguments.only, name):
            continue
        try:
            found = part(ground)
        except (RuntimeError, OSError, ValueError) as error:  # later parts are still measured
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed.append(name)
            continue
        rows += found
        for row in found:
            print(figures.line(row.cells()), file=sys.stderr, flush=True)
    text = "".join(f"* {key}: {value}\n" for key, value in under.items()) + "\n" + figures.markdown(rows)
    text += f"\n{figures.verdict(rows)}.\n" + "".join(f"Not measured: {name}.\n" for name in failed)
    print(text)
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(text)
    if arguments.json:
        found = {"conditions": under, "rows": [row.as_json() for row in rows], "not_measured": failed}
        pathlib.Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
