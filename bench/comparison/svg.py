"""SVG by hand, so that a picture needs no package: shapes, logarithmic scales, charts of lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

# Okabe and Ito's colours, which colour-blind readers can distinguish as well.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY, PALE = "#CC79A7", "#56B4E9", "#1f2328", "#57606a", "#d8dee4"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)

WIDTH, HEIGHT = 900, 520
LEFT, RIGHT, TOP, BOTTOM = 84, 200, 96, 64  # around the plot area; the legend is in RIGHT


@dataclass(frozen=True)
class Line:
    """Points in the order of x. All values are above 0."""

    label: str
    points: tuple[tuple[float, float], ...]
    colour: str
    dashes: str = ""
    marks: str = "all"  # or "last"


@dataclass(frozen=True)
class Scale:
    """Logarithmic, from `low` at pixel `start` to `high` at pixel `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


@dataclass(frozen=True)
class Chart:
    title: str
    facts: list[str]  # date and commit; the machine; warnings
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...]  # the first and the last are the ends of the axis
    lines: tuple[Line, ...]


def document(width: float, height: float, title: str, parts: list[str]) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="sans-serif" '
        'font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, colour: str = BLACK, anchor: str = "start",
         weight: str = "normal", size: int = 12) -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}" '
            f'font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>')


def segment(x1: float, y1: float, x2: float, y2: float, colour: str = PALE, width: float = 1,
            dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashed}/>')


def dot(x: float, y: float, colour: str, radius: float = 3.5) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>'


def heading(title: str, facts: list[str]) -> list[str]:
    """The title and what a reader must know: four lines at most, within the first 80 pixels."""
    lines = [*facts[:2], *(["; ".join(facts[2:])] if facts[2:] else [])]
    return [text(12, 24, title, weight="bold", size=15),
            *(text(12, 43 + 16 * at, line, colour=GREY if at < 2 else VERMILION, size=11)
              for at, line in enumerate(lines))]


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade, or only 1 where these would be too many; around all values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0 ** decade for decade in range(first, last + 1) for step in steps]
    begin = max([at for at, tick in enumerate(ticks) if tick <= low * 1.0001], default=0)
    end = min([at for at, tick in enumerate(ticks) if tick >= high * 0.9999],
              default=len(ticks) - 1)
    return ticks[begin:max(end, begin + 1) + 1]


def chart(what: Chart) -> str:
    """Both axes are logarithmic; every line has its sample in the legend."""
    values = [y for line in what.lines for _, y in line.points]
    y_ticks = decades(min(values), max(values))
    x = Scale(what.x_ticks[0][0], what.x_ticks[-1][0], LEFT, WIDTH - RIGHT)
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = heading(what.title, what.facts)
    for value, label in what.x_ticks:
        parts += [segment(x.at(value), y.start, x.at(value), y.end),
                  text(x.at(value), y.start + 18, label, colour=GREY, anchor="middle")]
    for value in y_ticks:
        parts += [segment(x.start, y.at(value), x.end, y.at(value)),
                  text(x.start - 8, y.at(value) + 4, short(value), colour=GREY, anchor="end")]
    parts.append(text((x.start + x.end) / 2, HEIGHT - 20, what.x_label, anchor="middle"))
    middle = (y.start + y.end) / 2
    parts.append(f'<g transform="rotate(-90 20 {middle:.1f})">'
                 + text(20, middle, what.y_label, anchor="middle") + "</g>")
    for at, line in enumerate(what.lines):
        parts += drawn(line, x, y) + legend(line, at)
    return document(WIDTH, HEIGHT, what.title, parts)


def drawn(line: Line, x: Scale, y: Scale) -> list[str]:
    places = [(x.at(across), y.at(up)) for across, up in line.points]
    dashed = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    parts = ['<polyline fill="none" points="' + " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
             + f'" stroke="{line.colour}" stroke-width="2"{dashed}/>']
    marked = places if line.marks == "all" else places[-1:]
    return parts + [dot(across, up, line.colour) for across, up in marked]


def legend(line: Line, at: int) -> list[str]:
    left, up = WIDTH - RIGHT + 16, TOP + 10 + 20 * at
    return [segment(left, up, left + 26, up, line.colour, 2, line.dashes),
            text(left + 32, up + 4, line.label)]


def short(value: float) -> str:
    """A tick: 0.01, 20, 5k, 1M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
