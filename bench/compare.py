#!/usr/bin/env python3
"""Runs cordma-perf beside its peers and limits, interleaved, and prints one table.

Usually started by compare.sh, which installs the peers and builds cordma first.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
from itertools import groupby
from pathlib import Path

from comparison import machine, report
from comparison.model import Row, Run, Series
from comparison.pictures import pictures
from comparison.programs import Programs, found_in
from comparison.recorded import of_comparison
from comparison.results import result_of
from comparison.rows import all_rows, beside_rows, rdma_rows
from comparison.series import ONE_WAY, limit

ROOT = Path(__file__).resolve().parent.parent
QUICK_DIVISOR = 10

# Runs before every other run: on a virtual machine the host may move the CPUs closer together or
# further apart at any time, and only a figure measured at that time shows it.
PROBE = limit("cache-line", 8, ONE_WAY, 100_000, "placement probe")


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--build", type=Path, help="folder with cordma-perf and bench-* built")
    parser.add_argument("--repetitions", type=int, default=None, metavar="N",
                        help="repetitions of every series (5; 2 with --quick)")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="only rows whose name or peer matches, case ignored")
    parser.add_argument("--quick", action="store_true",
                        help="a tenth of the iterations: to check the script, not for figures")
    parser.add_argument("--cpu", default="0,1", metavar="A,B",
                        help="CPUs of the server and the client side of everything (0,1)")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="where the JSON goes (out/compare.json beside bench/)",
                        default=ROOT / "out" / "compare.json")
    parser.add_argument("--markdown", type=Path, metavar="FILE",
                        help="write the table as Markdown, too")
    parser.add_argument("--plot", type=Path, metavar="DIR",
                        help="draw the pictures of bench/plot into DIR, too")
    parser.add_argument("--beside", type=Path, metavar="BUILD",
                        help="instead of peers and limits: the same programs of an earlier build, "
                             "interleaved with these")
    parser.add_argument("--ucx", type=Path, metavar="PREFIX",
                        default=os.environ.get("UCX_PREFIX") or None,
                        help="where the newest UCX is installed, which PREFIX/bin/ucx_perftest is of "
                             "(UCX_PREFIX; else the ucx_perftest of PATH, which of Debian is old)")
    parser.add_argument("--no-wait", action="store_true",
                        help="begin at once, however busy the machine is; else the first run waits "
                             f"until the load is below {machine.BUSY_LOAD:g}, "
                             f"{machine.QUIET_LIMIT_S // 60} minutes at most (with --quick it "
                             "never does)")
    parser.add_argument("--rdma", action="store_true",
                        help="the rows over an RDMA device instead, beside perftest: the device is "
                             "RDMA_DEVICE, an address on its network RDMA_HOST_SELF")
    parser.add_argument("--list", action="store_true", help="print the rows and run nothing")
    options = parser.parse_args()
    if options.repetitions is None:
        options.repetitions = 2 if options.quick else 5
    if options.repetitions < 1:
        parser.error("--repetitions needs at least 1")
    if options.beside and found_in(options.beside, "cordma-perf") is None:
        parser.error(f"--beside: there is no cordma-perf in {options.beside}")
    if options.ucx is not None and not (Path(options.ucx) / "bin" / "ucx_perftest").is_file():
        parser.error(f"--ucx: there is no {Path(options.ucx) / 'bin' / 'ucx_perftest'}")
    if not re.fullmatch(r"\d+,\d+", options.cpu):
        parser.error("--cpu needs two CPU numbers as in 0,1")
    try:
        options.only = re.compile(options.only, re.IGNORECASE)
    except re.error as problem:
        parser.error(f"--only is no regular expression: {problem}")
    return options


def chosen_rows(only: re.Pattern[str], rdma: bool) -> list[Row]:
    return [row for row in (rdma_rows() if rdma else all_rows())
            if only.search(" vs ".join([row.name, *(peer.label for peer in row.peers)]))]


def series_of(rows: list[Row]) -> list[Series]:
    """Each series once, cordma's first, in the order of the rows."""
    return list(dict.fromkeys(series for row in rows for series in (row.ours, *row.peers)))


def show_progress(done: int, total: int, run: Run) -> None:
    outcome = f"{run.value:.4g}" if run.value is not None else run.error
    line = f"[{done}/{total}] repetition {run.repetition}  {run.command}: {outcome}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line[:150]}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def run_one(series: Series, repetition: int, programs: Programs, done: dict[str, Run]) -> Run:
    """Probe, then run; or read the figure from an equal command's run of this repetition."""
    before = done.get(programs.command(series))
    if before is not None:
        run = programs.run(series, repetition, before)
        run.cache_line_us = before.cache_line_us
        return run
    probe = programs.run(PROBE, repetition) if programs.find(series.program) else None
    run = programs.run(series, repetition)
    run.cache_line_us = probe.value if probe else None
    done[run.command] = run
    return run


def run_all(rows: list[Row], programs: Programs, repetitions: int) -> list[Run]:
    """Group by group; within a group A B C, A B C, ... so that all see the same weather."""
    groups = [series_of(list(members)) for _, members in groupby(rows, key=lambda row: row.group)]
    total = repetitions * sum(len(group) for group in groups)
    runs: list[Run] = []
    for group in groups:
        for repetition in range(1, repetitions + 1):
            done: dict[str, Run] = {}
            for series in group:
                run = run_one(series, repetition, programs, done)
                runs.append(run)
                show_progress(len(runs), total, run)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return runs


def facts_of(options: argparse.Namespace, programs: Programs) -> dict:
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "quick": options.quick,
        "repetitions": options.repetitions,
        "machine": machine.machine(programs.cpus),
        "versions": machine.versions(programs),
        "commit": machine.commit(ROOT),
    }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"written: {path}")


def main() -> int:
    options = command_line()
    rows = chosen_rows(options.only, options.rdma)
    if options.beside:
        rows = beside_rows(rows)
    if not rows:
        print("no row matches --only; --list shows them all", file=sys.stderr)
        return 2
    if options.list:
        for row in rows:
            peers = " or ".join(peer.label for peer in row.peers) or "-"
            print(f"{row.name} | {peers} | {row.goal or 'no goal'}")
        return 0
    server, client = map(int, options.cpu.split(","))
    programs = Programs(options.build, (server, client), QUICK_DIVISOR if options.quick else 1,
                        options.beside, Path(options.ucx) if options.ucx else None)
    if not options.quick and not options.no_wait:
        machine.wait_until_quiet()  # the build has just loaded it
    facts = facts_of(options, programs)
    runs = run_all(rows, programs, options.repetitions)
    facts["machine"]["load_at_end"] = machine.load()
    results = [result_of(row, runs) for row in rows]
    print(report.text(facts, results))
    print()
    document = report.as_json(facts, results, runs)
    write(options.json, report.as_text(document))
    if options.markdown:
        write(options.markdown, report.markdown(facts, results))
    if options.plot:
        for name, picture in pictures(of_comparison("comparison", document)).items():
            write(options.plot / name, picture)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped; nothing written", file=sys.stderr)
        sys.exit(130)
