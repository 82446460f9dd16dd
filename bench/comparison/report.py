"""A comparison as JSON, as a table for a terminal and as a Markdown table."""

from __future__ import annotations

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


def heading(facts: dict) -> list[str]:
    """What a reader must know before the first figure."""
    machine, commit, versions = facts["machine"], facts["commit"], facts["versions"]
    kind = "virtual machine" if machine["virtual"] else "bare metal"
    lines = [
        f"{facts['date']}, commit {(commit['commit'] or 'unknown')[:12]}"
        + (" with changes" if commit["changed"] else ""),
        f"{machine['cpu']}, {machine['cpus_online']} CPUs ({kind}), Linux {machine['kernel']}, "
        f"{machine['system']}",
        f"UCX {versions['ucx'] or 'not installed'}; cordma built with "
        f"{versions['compiler'] or 'an unknown compiler'}, {versions['build_type'] or 'unknown'}",
        f"medians of {facts['repetitions']} interleaved repetitions, CPUs "
        f"{machine['cpus_used'][0]} and {machine['cpus_used'][1]}",
    ]
    if facts["quick"]:
        lines.append("QUICK RUN: a tenth of the iterations; a check of the script, not a result")
    elif facts["repetitions"] < 5:
        lines.append("FEWER THAN 5 REPETITIONS: not a result")
    if machine["load_at_start"] > BUSY_LOAD:
        lines.append(f"THE MACHINE WAS NOT QUIET: load {machine['load_at_start']:.2f} at the start")
    return lines


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
    return {"schema": SCHEMA, **facts,
            "rows": [row_json(result) for result in results],
            "runs": [run_json(run) for run in runs]}


def row_json(result: Result) -> dict:
    row = result.row
    goal = {"sign": row.goal.sign, "limit": row.goal.limit, "on": row.goal.on} if row.goal else None
    return {"what": row.name, "unit": row.unit, "cordma": result.ours,
            "cordma_repetitions": result.ours_runs, "peer": result.their_label,
            "peer_figure": result.theirs, "peer_repetitions": result.their_runs,
            "ratio": result.ratio, "ratio_per_repetition": result.ratios,
            "goal": goal, "reached": result.reached, "notes": result.notes}


def run_json(run: Run) -> dict:
    return {"label": run.series.label, "repetition": run.repetition, "command": run.command,
            "figure": run.series.figure, "value": run.value, "error": run.error,
            "seconds": round(run.seconds, 3), "cache_line_us": run.cache_line_us, "raw": run.raw}
