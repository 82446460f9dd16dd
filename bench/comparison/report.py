"""A comparison as JSON, as a table for a terminal and as a Markdown table."""

from __future__ import annotations

import json

from .machine import BUSY_LOAD
from .model import Result, Run

SCHEMA = "cordma-compare/1"
HEADINGS = ("what", "cordma", "peer or limit", "its figure", "ratio", "goal", "reached", "notes")


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return f"{value:.3g} {unit}".strip() if abs(value) < 1000 else f"{value:,.0f} {unit}".strip()


def ratio(result: Result) -> str:
    """The ratio of the medians, and the span of the ratios of single repetitions."""
    if result.ratio is None:
        return ""
    span = ""
    if len(result.ratios) > 1:
        span = f" ({min(result.ratios):.2f}-{max(result.ratios):.2f})"
    return f"{result.ratio:.2f} x{span}"


def verdict(result: Result) -> str:
    if result.row.goal is None:
        return "no goal"
    if not result.judged:
        return "not judged"
    if result.reached is None:
        return "failed" if any("failed" in note for note in result.notes) else "not run"
    return "yes" if result.reached else "no"


def cells(result: Result) -> tuple[str, ...]:
    row = result.row
    return (row.name, number(result.ours, row.unit), result.their_label,
            number(result.theirs, row.unit),
            ratio(result),
            f"{row.goal} {row.unit if row.goal.on == 'value' else ''}".strip() if row.goal else "",
            verdict(result), "; ".join(result.notes))


def origin(facts: dict) -> list[str]:
    """When and of what; where."""
    machine, commit = facts["machine"], facts["commit"]
    kind = "virtual machine" if machine["virtual"] else "bare metal"
    return [
        f"{facts['date']}, commit {(commit['commit'] or 'unknown')[:12]}"
        + (" with changes" if commit["changed"] else ""),
        f"{machine['cpu']}, {machine['cpus_online']} CPUs ({kind}), Linux {machine['kernel']}, "
        f"{machine['system']}"]


def warnings(facts: dict) -> list[str]:
    """Why the figures are not to be kept; empty where they are."""
    lines = []
    if facts["quick"]:
        lines.append("QUICK RUN: a tenth of the iterations; a check of the script, not a result")
    elif facts["repetitions"] < 5:
        lines.append("FEWER THAN 5 REPETITIONS: not a result")
    ucx = facts["versions"].get("ucx")
    if ucx and not facts["versions"].get("ucx_prefix"):
        lines.append(f"UCX {ucx} IS THE DISTRIBUTION'S, AND OLD: build the newest, and name where it is "
                     "installed by --ucx PREFIX")
    load = facts["machine"]["load_at_start"]
    if load > BUSY_LOAD:
        lines.append(f"THE MACHINE WAS NOT QUIET: load {load:.2f} at the start")
    return lines


def heading(facts: dict) -> list[str]:
    """What a reader must know before the first figure."""
    machine, versions = facts["machine"], facts["versions"]
    peers = "".join(f", {name} {versions[key]}" for key, name in (
        ("sockperf", "sockperf"), ("qperf", "qperf"), ("libfabric-bin", "libfabric"))
        if versions.get(key))
    beside = (f"before: {versions['before']}" if versions.get("before")
              else f"UCX {versions['ucx'] or 'not installed'}{peers}")
    return [
        *origin(facts),
        f"{beside}; cordma built with "
        f"{versions['compiler'] or 'an unknown compiler'}, {versions['build_type'] or 'unknown'}",
        f"medians of {facts['repetitions']} interleaved repetitions, CPUs "
        f"{machine['cpus_used'][0]} and {machine['cpus_used'][1]}",
        *warnings(facts)]


def text(facts: dict, results: list[Result]) -> str:
    table = [HEADINGS, *(cells(result) for result in results)]
    widths = [max(len(line[at]) for line in table) for at in range(len(HEADINGS) - 1)]
    lines = ["  ".join([cell.ljust(width) for cell, width in zip(line, widths)] + [line[-1]])
             for line in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*heading(facts), "", *(line.rstrip() for line in lines)])


def markdown(facts: dict, results: list[Result]) -> str:
    def line(parts: tuple[str, ...]) -> str:
        return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"

    rows = [line(HEADINGS), "|" + "---|" * len(HEADINGS), *(line(cells(r)) for r in results)]
    return "\n".join([*(f"* {fact}" for fact in heading(facts)), "", *rows]) + "\n"


def as_json(facts: dict, results: list[Result], runs: list[Run]) -> dict:
    """Of runs that share one run of a program only the first has what that printed."""
    printed: set[tuple[str, int]] = set()
    kept = runs_with_curve(runs)
    written = []
    for run in runs:
        first = (run.command, run.repetition) not in printed
        printed.add((run.command, run.repetition))
        raw = (run.raw if id(run) in kept else without_curves(run.raw)) if first else None
        written.append(run_json(run, raw))
    return {"schema": SCHEMA, **facts, "rows": [row_json(result) for result in results],
            "runs": written}


def as_text(document: dict) -> str:
    """One line a row and a run: the lists of numbers in them would each be pages otherwise."""
    lines = []
    for key, value in document.items():
        if key in ("rows", "runs"):
            members = ",\n  ".join(json.dumps(member) for member in value)
            lines.append(f' "{key}": [\n  {members}\n ]')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def runs_with_curve(runs: list[Run]) -> set[int]:
    """Which runs keep their percentile curve: of each command that is drawn, the repetition with
    the median of the p99s."""
    by_command: dict[str, dict[int, Run]] = {}
    for run in runs:
        if run.series.curve == "drawn" and isinstance(run.raw, dict) and run.raw.get("latency_us"):
            by_command.setdefault(run.command, {}).setdefault(run.repetition, run)
    return {id(sorted(same.values(), key=lambda run: run.raw["latency_us"].get("p99") or 0)
               [(len(same) - 1) // 2]) for same in by_command.values()}


def without_curves(raw: object) -> object:
    if not isinstance(raw, dict):
        return raw
    return {key: {name: part for name, part in value.items() if name != "curve"}
            if isinstance(value, dict) else value for key, value in raw.items()}


def row_json(result: Result) -> dict:
    row = result.row
    goal = {"sign": row.goal.sign, "limit": row.goal.limit, "on": row.goal.on} if row.goal else None
    return {"what": row.name, "unit": row.unit, "cordma": result.ours,
            "cordma_repetitions": result.ours_runs, "peer": result.their_label,
            "peer_figure": result.theirs, "peer_repetitions": result.their_runs,
            "ratio": result.ratio, "ratio_per_repetition": result.ratios,
            "goal": goal, "reached": result.reached, "judged": result.judged,
            "part_of": row.part_of, "notes": result.notes}


def run_json(run: Run, raw: object) -> dict:
    return {"label": run.series.label, "repetition": run.repetition, "command": run.command,
            "figure": run.series.figure, "value": run.value, "error": run.error,
            "seconds": round(run.seconds, 3), "cache_line_us": run.cache_line_us, "raw": raw}
