"""From runs to rows: medians, ratios, verdicts, and what to distrust."""

from __future__ import annotations

from statistics import median

from .model import Result, Row, Run, Series

# probes that differ by more than this factor: the CPUs have moved relative to each other
MOVED = 1.3


def runs_of(series: Series, runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.series == series]


def values_of(series: Series, runs: list[Run]) -> list[float]:
    return [run.value for run in runs_of(series, runs) if run.value is not None]


def probe_of(series: Series, runs: list[Run]) -> float | None:
    probes = [run.cache_line_us for run in runs_of(series, runs) if run.cache_line_us is not None]
    return median(probes) if probes else None


def problem_of(series: Series, runs: list[Run]) -> str | None:
    """None when every repetition gave a figure."""
    mine = runs_of(series, runs)
    failed = [run for run in mine if run.error is not None]
    if not failed:
        return None
    if failed[0].missing:
        return f"not run: {failed[0].error}"
    who = ("before" if series.beside else
           "cordma" if series.program == "cordma-perf" else "peer")
    count = "" if len(failed) == len(mine) else f" in {len(failed)} of {len(mine)} repetitions"
    return f"{who} failed{count}: {failed[-1].error}"


def result_of(row: Row, runs: list[Run]) -> Result:
    ours_runs = values_of(row.ours, runs)
    ours = median(ours_runs) if ours_runs else None
    theirs, their_series = best_peer(row, runs)
    label = their_series.label if their_series else " or ".join(p.label for p in row.peers) or "-"
    if len(row.peers) > 1 and their_series:
        label = f"better of {len(row.peers)}: {label}"
    ratio = ours / theirs if ours is not None and theirs else None
    judged = ratio if row.goal and row.goal.on == "ratio" else ours
    short_gap, gap_note = gap_of(row, their_series, runs)
    reached = row.goal.reached(judged) if row.goal and judged is not None and short_gap else None
    result = Result(row, ours, theirs, label, ratio, paired_ratios(row.ours, their_series, runs),
                    reached, judged=short_gap, ours_runs=ours_runs,
                    their_runs=values_of(their_series, runs) if their_series else [])
    if gap_note:
        result.notes.append(gap_note)
    for series in (row.ours, *row.peers):
        problem = problem_of(series, runs)
        if problem and problem not in result.notes:
            result.notes.append(problem)
    moved = moved_between(row.ours, their_series, runs)
    if moved:
        result.notes.append(moved)
    return result


def gap_of(row: Row, theirs: Series | None, runs: list[Run]) -> tuple[bool, str | None]:
    """Whether the goal is to be judged here, and what to say of the gap between messages: that is
    the pause of the program. A machine whose wake-up cost is unknown is judged.
    """
    if row.gap_us is None or theirs is None:
        return True, None
    costs = numbers_of(row.ours, runs, "client", "wake_cost_ns")
    if not costs:
        return True, "wake-up cost unknown"
    cost_us = median(costs) / 1e3
    if row.gap_us < cost_us:
        return True, f"gap {row.gap_us:g} us, below the wake-up cost of {cost_us:.3g} us"
    return False, f"not judged: gap {row.gap_us:g} us, wake-up cost {cost_us:.3g} us"


def numbers_of(series: Series, runs: list[Run], part: str, key: str) -> list[float]:
    """What stands at part.key in what the runs printed; a null and what is missing are left out."""
    parts = [run.raw.get(part) for run in runs_of(series, runs) if isinstance(run.raw, dict)]
    found = [part.get(key) for part in parts if isinstance(part, dict)]
    return [value for value in found
            if isinstance(value, (int, float)) and not isinstance(value, bool)]


def best_peer(row: Row, runs: list[Run]) -> tuple[float | None, Series | None]:
    medians = [(median(values), series) for series in row.peers
               if (values := values_of(series, runs))]
    if len(medians) < len(row.peers) or not medians:
        return None, None  # choosing the better of two needs both
    choose = min if row.better == "lower" else max
    return choose(medians, key=lambda pair: pair[0])


def paired_ratios(ours: Series, theirs: Series | None, runs: list[Run]) -> list[float]:
    """Per repetition, so that a change of the machine's pace between repetitions falls out."""
    if theirs is None:
        return []
    other = {run.repetition: run.value for run in runs_of(theirs, runs)}
    return [run.value / other[run.repetition] for run in runs_of(ours, runs)
            if run.value is not None and other.get(run.repetition)]


def moved_between(ours: Series, theirs: Series | None, runs: list[Run]) -> str | None:
    """On a virtual machine the host may move the CPUs: then two halves of a row do not compare."""
    if theirs is None:
        return None
    mine, other = probe_of(ours, runs), probe_of(theirs, runs)
    if mine is None or other is None or max(mine, other) <= MOVED * min(mine, other):
        return None
    return f"CPUs moved: cache line {mine:.3f} us beside cordma, {other:.3f} us beside the peer"
