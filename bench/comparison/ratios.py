"""The ratios of a comparison: a bar from 1 to each, on a logarithmic axis, and where its goal lies.

A bar ends at the ratio of the medians, a thin line is the span over the repetitions, a tick the
goal.
"""

from __future__ import annotations

import math

from . import svg
from .recorded import Recorded

ROW_HEIGHT = 22
NAME_WIDTH = 500
AXIS_WIDTH = 480
VALUE_WIDTH = 80
TOP = 108
NAME_LENGTH = 84
COLOURS = {True: svg.BLUE, False: svg.VERMILION, None: svg.GREY}
MEANINGS = {True: "goal reached", False: "goal missed", None: "no goal, or not judged"}


def ratios(found: Recorded) -> dict[str, str]:
    """Points of a sweep are left out: they are drawn over size."""
    shown = [row for row in found.rows if row.get("ratio") and row.get("part_of") != "sweep"]
    return {"ratios.svg": drawn(found.facts, shown)} if shown else {}


def drawn(facts: list[str], shown: list[dict]) -> str:
    low, high = span(shown)
    axis = svg.Scale(low, high, NAME_WIDTH, NAME_WIDTH + AXIS_WIDTH)
    height = TOP + ROW_HEIGHT * len(shown) + 40
    title = "cordma / peer: lower is better for us, ns and %, higher for GB/s and M/s"
    parts = svg.heading(title, facts)
    for at, (reached, meaning) in enumerate(MEANINGS.items()):
        parts += [f'<rect x="{NAME_WIDTH + 130 * at}" y="{TOP - 22}" width="10" height="10" '
                  f'fill="{COLOURS[reached]}"/>',
                  svg.text(NAME_WIDTH + 130 * at + 14, TOP - 13, meaning, colour=svg.GREY, size=11)]
    parts.append(svg.text(NAME_WIDTH - 8, TOP - 13, "| goal", colour=svg.GREY, size=11,
                          anchor="end"))
    for exponent in range(round(math.log2(low)), round(math.log2(high)) + 1):
        parts += grid_line(exponent, axis, height)
    for at, row in enumerate(shown):
        parts += bar(row, TOP + ROW_HEIGHT * at + 12, axis)
    return svg.document(NAME_WIDTH + AXIS_WIDTH + VALUE_WIDTH, height, title, parts)


def span(shown: list[dict]) -> tuple[float, float]:
    """The ends of the axis: whole powers of two around every ratio, goal and 1."""
    values = [1.0]
    for row in shown:
        values += [row["ratio"], *row.get("ratio_per_repetition", ())]
        if goal_of(row):
            values.append(goal_of(row))
    positive = [value for value in values if value > 0]
    low = 2.0 ** math.floor(math.log2(min(positive)) - 0.01)
    return low, 2.0 ** math.ceil(math.log2(max(positive)) + 0.01)


def goal_of(row: dict) -> float | None:
    goal = row.get("goal")
    return goal["limit"] if goal and goal["on"] == "ratio" else None


def grid_line(exponent: int, axis: svg.Scale, height: float) -> list[str]:
    x = axis.at(2.0 ** exponent)
    label = f"{2 ** exponent}" if exponent >= 0 else f"1/{2 ** -exponent}"
    return [svg.segment(x, TOP - 4, x, height - 32, svg.GREY if exponent == 0 else svg.PALE),
            svg.text(x, height - 16, label, colour=svg.GREY, anchor="middle")]


def bar(row: dict, y: float, axis: svg.Scale) -> list[str]:
    colour = COLOURS[row.get("reached") if row.get("goal") else None]
    ends = [end for end in (*row.get("ratio_per_repetition", ()), row["ratio"]) if end > 0]
    x, one = axis.at(row["ratio"]), axis.at(1)
    name = f"{row['what']} / {row['peer']}"
    parts = [svg.text(NAME_WIDTH - 8, y + 4, name if len(name) <= NAME_LENGTH
                      else name[:NAME_LENGTH - 1] + "…", anchor="end", size=11),
             f'<rect class="ratio" x="{min(x, one):.1f}" y="{y - 6:.1f}" '
             f'width="{abs(x - one):.1f}" height="12" fill="{colour}" fill-opacity="0.45"/>',
             svg.segment(axis.at(min(ends)), y, axis.at(max(ends)), y, colour, 2),
             svg.dot(x, y, colour),
             svg.text(NAME_WIDTH + AXIS_WIDTH + 8, y + 4, f"{row['ratio']:.2f} x", colour=colour)]
    if goal_of(row):
        tick = axis.at(goal_of(row))
        parts.append(svg.segment(tick, y - 9, tick, y + 9, svg.BLACK, 2))
    return parts
