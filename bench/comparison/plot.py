"""A comparison as a picture: each row's ratio on a logarithmic axis, and where its goal lies.

Written as SVG by hand, so that it needs no package. A bar is the span over the repetitions, a dot
the ratio of the medians, a tick the goal; green reached, red missed, grey without a goal.
"""

from __future__ import annotations

import math
from html import escape

from .model import Result

ROW_HEIGHT = 22
NAME_WIDTH = 460
AXIS_WIDTH = 520
VALUE_WIDTH = 90
TOP = 70
COLOURS = {True: "#1a7f37", False: "#cf222e", None: "#6e7781"}


def svg(facts_lines: list[str], results: list[Result]) -> str:
    """Rows without a ratio are left out; with none at all the picture says so."""
    shown = [result for result in results if result.ratio]
    low, high = span(shown)
    width = NAME_WIDTH + AXIS_WIDTH + VALUE_WIDTH
    height = TOP + ROW_HEIGHT * max(1, len(shown)) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             words(10, 20, "cordma / peer (lower is better for times and CPU, higher for GB/s "
                   "and rates)", weight="bold"),
             words(10, 38, "; ".join(facts_lines[:2]), colour="#57606a")]
    if not shown:
        parts.append(words(10, TOP + 14, "no row has figures of both sides"))
    for exponent in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1):
        parts += grid_line(2.0 ** exponent, low, high, height)
    for at, result in enumerate(shown):
        parts += row(result, TOP + ROW_HEIGHT * at + 14, low, high)
    return "\n".join([*parts, "</svg>"]) + "\n"


def span(shown: list[Result]) -> tuple[float, float]:
    """The ends of the axis: whole powers of two around every ratio, goal and 1."""
    values = [1.0]
    for result in shown:
        values += [result.ratio, *result.ratios]
        if result.row.goal and result.row.goal.on == "ratio":
            values.append(result.row.goal.limit)
    positive = [value for value in values if value > 0]
    low = 2.0 ** math.floor(math.log2(min(positive)) - 0.01)
    return low, 2.0 ** math.ceil(math.log2(max(positive)) + 0.01)


def place(value: float, low: float, high: float) -> float:
    share = (math.log2(max(value, low)) - math.log2(low)) / (math.log2(high) - math.log2(low))
    return NAME_WIDTH + share * AXIS_WIDTH


def words(x: float, y: float, text: str, colour: str = "black", weight: str = "normal",
          anchor: str = "start") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}" '
            f'text-anchor="{anchor}">{escape(text)}</text>')


def grid_line(value: float, low: float, high: float, height: int) -> list[str]:
    x = place(value, low, high)
    colour = "#57606a" if value == 1 else "#d0d7de"
    label = f"{value:g}" if value >= 1 else f"1/{1 / value:g}"
    return [f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 30}" '
            f'stroke="{colour}"/>',
            words(x, height - 14, label, colour="#57606a", anchor="middle")]


def row(result: Result, y: float, low: float, high: float) -> list[str]:
    colour = COLOURS[result.reached]
    ends = [*result.ratios, result.ratio]
    left, right = place(min(ends), low, high), place(max(ends), low, high)
    x = place(result.ratio, low, high)
    parts = [words(NAME_WIDTH - 8, y + 4, f"{result.row.name} / {result.their_label}"[:78],
                   anchor="end"),
             f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
             'stroke-width="6" stroke-opacity="0.35"/>',
             f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}"/>',
             words(NAME_WIDTH + AXIS_WIDTH + 8, y + 4, f"{result.ratio:.2f} x", colour=colour)]
    goal = result.row.goal
    if goal and goal.on == "ratio":
        tick = place(goal.limit, low, high)
        parts.append(f'<line x1="{tick:.1f}" x2="{tick:.1f}" y1="{y - 9}" y2="{y + 9}" '
                     'stroke="black" stroke-width="2"/>')
    return parts
