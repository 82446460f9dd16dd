"""The pictures: percentile curves, CPU over think time, bandwidth over size, ratios.

Each takes what was recorded and gives its files, name to text; none where there is no data for it.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from . import svg
from .configuration import (ALWAYS_SAID, DEFAULTS, file_words_of, pause, telling_apart, values_of,
                            wait_of, words_of)
from .ratios import ratios
from .recorded import Recorded

WAIT_COLOURS = {"polling": svg.BLUE, "event": svg.VERMILION, "adaptive": svg.GREEN}
# Transport, test of bench-limits, waiting mode (None: there is only one).
LIMITS = (("shm", "copy-write", None, "memcpy, writing", svg.BLACK),
          ("shm", "copy-read", None, "memcpy, reading", svg.GREY),
          ("tcp", "tcp-bandwidth", "event", "raw sockets, blocking", svg.BLACK),
          ("tcp", "tcp-bandwidth", "polling", "raw sockets, polled", svg.GREY))
FEWEST_SIZES = 3  # a shorter line is omitted if another has this many


def pictures(found: Recorded) -> dict[str, str]:
    return {**percentiles(found), **cpu_over_think(found), **bandwidth_over_size(found),
            **ratios(found)}


def grouped(members: list[dict], key: Callable[[dict], object]) -> dict:
    groups: dict = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def measured(run: dict) -> tuple:
    """What, whatever the configuration."""
    return run["transport"], run["test"], run.get("size")


def amount(size: float) -> str:
    """Bytes as the axis and titles have them: 8 B, 64 KiB, 100 MiB."""
    for unit, name in ((2 ** 30, "GiB"), (2 ** 20, "MiB"), (2 ** 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


# Percentile curves

def percentiles(found: Recorded) -> dict[str, str]:
    """One picture for runs that differ in nothing but the way of waiting."""
    with_curve = [run for run in found.perf if len(curve_of(run)) > 1]
    groups = grouped(with_curve, lambda run: (*measured(run), *values_of(run, DEFAULTS)))
    others = [key for key in DEFAULTS if key not in ALWAYS_SAID]
    named = [*ALWAYS_SAID, *telling_apart(
        with_curve, lambda run: (*measured(run), *values_of(run, ALWAYS_SAID)), others)]
    tests = {run["test"] for run in with_curve}
    sizes = {run.get("size") for run in with_curve}
    files: dict[str, str] = {}
    for runs in groups.values():
        one = runs[0]
        words = ["percentiles", one["transport"]]
        words += [one["test"]] if len(tests) > 1 else []
        words += [f"{one['size']}B"] if len(sizes) > 1 else []
        words += file_words_of(one, named)
        files[f"{'-'.join(words)}.svg"] = percentile_chart(found, runs, words_of(one, named))
    return files


def curve_of(run: dict) -> list[tuple[float, float]]:
    """(1 / (1 - share), us); the largest sample stands at twice the last rank below it."""
    latency = run.get("latency_us")
    points = latency.get("curve") if isinstance(latency, dict) else None
    below = [(1 / (1 - share), us) for share, us in points or () if share < 1 and us > 0]
    largest = [us for share, us in points or () if share >= 1 and us > 0]
    return below + ([(2 * below[-1][0], largest[-1])] if below and largest else [])


def percentile_chart(found: Recorded, runs: list[dict], configured: list[str]) -> str:
    lines = []
    for wait, same in grouped(runs, wait_of).items():
        same.sort(key=lambda run: run["latency_us"].get("p99") or 0)
        curve = curve_of(same[(len(same) - 1) // 2])
        lines.append(svg.Line(wait, tuple(curve), WAIT_COLOURS.get(wait, svg.PURPLE), marks="last"))
    lines.sort(key=lambda line: list(WAIT_COLOURS).index(line.label)
               if line.label in WAIT_COLOURS else len(WAIT_COLOURS))
    furthest = max(x for line in lines for x, _ in line.points)
    one = runs[0]
    of = f"{one['latency_us'].get('of', 'latency')}, us"
    if one["latency_us"].get("from") == "intended start":
        of += ", from the intended start"
    about = [f"{one['test']} {amount(one.get('size') or 0)} over {one['transport']}", *configured]
    return svg.chart(svg.Chart(
        f"Latency percentiles: {', '.join(about)}", found.facts,
        "percentile (the last point of a line is its largest sample)", of,
        percentile_ticks(furthest), tuple(lines)))


def percentile_ticks(furthest: float) -> tuple[tuple[float, str], ...]:
    ticks, value = [(1.0, "0"), (2.0, "50"), (10.0, "90"), (100.0, "99")], 100.0
    while value < furthest:
        value *= 10
        ticks.append((value, f"{100 * (1 - 1 / value):.10g}"))
    return tuple(ticks)


# CPU per message over think time

def cpu_over_think(found: Recorded) -> dict[str, str]:
    """One picture for runs that differ in nothing but the pause and the way of waiting, of one
    flow with one request at a time: what else is under way fills a pause. A think time of 0 stands
    a step to the left of the shortest other one."""
    usable = [run for run in found.perf if is_paced_by_pauses(run) and (cpu_ns(run) or 0) > 0]
    others = [key for key in DEFAULTS if key != "think_us"]
    groups = {key: runs for key, runs in grouped(
        usable, lambda run: (*measured(run), *values_of(run, others))).items()
        if len({run["think_us"] for run in runs}) > 1}
    several = len({key[1:3] for key in groups}) > 1
    named = telling_apart([run for runs in groups.values() for run in runs], measured, others)
    files = {}
    for (transport, test, size, *_), runs in groups.items():
        thinks = sorted({run["think_us"] for run in runs})
        zero = thinks[1] / 5 if thinks[0] == 0 else None
        lines = []
        for wait, colour in WAIT_COLOURS.items():
            same = grouped([run for run in runs if wait_of(run) == wait],
                           lambda run: run["think_us"])
            points = tuple((think or zero, median(map(cpu_ns, same[think])))
                           for think in sorted(same))
            if points:
                lines.append(svg.Line(wait, points, colour))
        ticks = tuple((think or zero, pause(think) if think else "0") for think in thinks)
        name = f"cpu_over_think-{transport}" + (f"-{test}-{size}B" if several else "")
        name = "-".join([name, *file_words_of(runs[0], named)])
        about = [f"{test} {amount(size or 0)} over {transport}", *words_of(runs[0], named)]
        files[f"{name}.svg"] = svg.chart(svg.Chart(
            f"CPU per message over think time: {', '.join(about)}", found.facts,
            "pause between round trips", "CPU time of both sides per message, ns", ticks,
            tuple(lines)))
    return files


def is_paced_by_pauses(run: dict) -> bool:
    return (isinstance(run.get("think_us"), (int, float))
            and values_of(run, ("arrival", "flows", "outstanding")) == ("closed", 1, 1))


def cpu_ns(run: dict) -> float | None:
    sides = run.get("cpu_ns_per_message")
    if not isinstance(sides, dict):
        return None
    return sum(sides.get(side) or 0 for side in ("client", "server"))


# Bandwidth over size

def bandwidth_over_size(found: Recorded) -> dict[str, str]:
    found_lines: dict[str, dict[str, list[dict]]] = {}  # transport: line: runs
    usable = [run for run in found.perf if is_bandwidth(run)]
    several_waits = len({wait_of(run) for run in usable}) > 1
    for runs in grouped(usable, lambda run: (run["transport"], run["test"], wait_of(run))).values():
        # Properties that depend on the size, such as fewer outstanding of the largest, belong to
        # the line.
        named = telling_apart(runs, lambda run: run["size"])
        for run in runs:
            words = [f"cordma {run['test']}", *([wait_of(run)] if several_waits else []),
                     *words_of(run, named)]
            lines_of = found_lines.setdefault(run["transport"], {})
            lines_of.setdefault(", ".join(words), []).append(run)
    files = {}
    for transport, lines_of in found_lines.items():
        ours = [line for at, (label, runs) in enumerate(lines_of.items())
                if (line := size_line(label, runs, svg.PALETTE[at % len(svg.PALETTE)]))]
        floors = [size_line(words, [run for run in found.limits if run["test"] == test
                                    and (wait is None or run.get("wait", "event") == wait)],
                            colour, dashes="6 4")
                  for over, test, wait, words, colour in LIMITS if over == transport]
        lines = [*ours, *(line for line in floors if line)]
        most = max((len(line.points) for line in lines), default=0)
        lines = [line for line in lines if len(line.points) >= min(most, FEWEST_SIZES)]
        if ours and most > 1 and any(line in lines for line in ours):
            files[f"bandwidth_over_size-{transport}.svg"] = svg.chart(svg.Chart(
                f"Bandwidth over size: {transport}, and what the machine can do", found.facts,
                "bytes of one message or copy", "GB/s", size_ticks(lines), tuple(lines)))
    return files


def is_bandwidth(run: dict) -> bool:
    return run["test"].endswith("-bw") and bool(run.get("bandwidth_GBps")) and bool(run.get("size"))


def size_line(label: str, runs: list[dict], colour: str, dashes: str = "") -> svg.Line | None:
    """The median of each size; None where there is none."""
    by_size = grouped([run for run in runs if run.get("bandwidth_GBps")], lambda run: run["size"])
    points = tuple((size, median(run["bandwidth_GBps"] for run in by_size[size]))
                   for size in sorted(by_size))
    return svg.Line(label, points, colour, dashes) if points else None


def size_ticks(lines: list[svg.Line]) -> tuple[tuple[float, str], ...]:
    """The sizes measured, without those that would stand too close to the one before."""
    sizes = sorted({size for line in lines for size, _ in line.points})
    ticks = [sizes[0]]
    for size in sizes[1:]:
        if size >= ticks[-1] * (sizes[-1] / sizes[0]) ** 0.05 or size == sizes[-1]:
            ticks.append(size)
    return tuple((size, amount(size)) for size in ticks)
