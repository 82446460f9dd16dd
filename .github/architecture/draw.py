#!/usr/bin/env python3
"""Draws ../architecture.svg from parts.txt. With --check: fails if the file differs from the drawing."""
import argparse
import sys
from html import escape
from pathlib import Path

WIDTH, ROW, GAP, LABEL = 900, 62, 10, 150
FILLS = ("#fff4e0", "#e3f2fd", "#e3f2fd", "#eceff1", "#e8f5e9", "#f3e5f5")


def layers(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """(name, [(title, purpose)]) of each line."""
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, boxes = line.partition(": ")
        pairs = [box.partition(" = ") for box in boxes.split(" | ")]
        found.append((name.strip(), [(title.strip(), purpose.strip()) for title, _, purpose in pairs]))
    return found


def label(x: float, y: float, words: str, size: int, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" {extra}>{escape(words)}</text>'


def box(x: float, y: float, width: float, title: str, purpose: str, fill: str) -> list[str]:
    centre = 'text-anchor="middle"'
    parts = [f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW}" rx="4" fill="{fill}" '
             'stroke="#57606a"/>']
    middle = x + width / 2
    if purpose:
        parts.append(label(middle, y + 27, title, 14, centre + ' font-weight="bold"'))
        parts.append(label(middle, y + 46, purpose, 11, centre))
    else:
        parts.append(label(middle, y + 36, title, 14, centre + ' font-weight="bold"'))
    return parts


def draw(text: str) -> str:
    rows = layers(text)
    height = len(rows) * (ROW + GAP) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">',
             "<title>The parts of cordma, the highest layer first</title>",
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for at, (name, boxes) in enumerate(rows):
        y = GAP + at * (ROW + GAP)
        parts.append(label(GAP, y + 36, name, 13))
        width = (WIDTH - LABEL - GAP * (len(boxes) + 1)) / len(boxes)
        for place, (title, purpose) in enumerate(boxes):
            x = LABEL + GAP + place * (width + GAP)
            parts += box(x, y, width, title, purpose, FILLS[at % len(FILLS)])
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = options.parse_args().check
    here = Path(__file__).resolve().parent
    picture = here.parent / "architecture.svg"
    drawn = draw((here / "parts.txt").read_text())
    if not check:
        picture.write_text(drawn)
    elif not picture.is_file() or picture.read_text() != drawn:
        print(f"{picture} is not the drawing of parts.txt; run python3 {Path(__file__)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
