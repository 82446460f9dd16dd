#!/usr/bin/env python3
"""Every room of net/ checks itself: enough checks per 1,000 lines. Usage: check_density.py [ROOT]

Counted are CORDMA_ASSERT, CORDMA_REQUIRE, their _OP forms, and static_assert, in the sources and headers of
each folder of net/ and in those public ones that are the room's (include_directions.PUBLIC_OF). Each room and
its density is printed. LEAST is the table: a new room needs a line there.
"""
import collections
import posixpath
import re
import sys

import include_directions
import tree

# Minimum number of checks per 1,000 lines.
LEAST = {
    "connecting": 15,
    "datapath": 20,
    "extras": 15,
    "memory": 15,
    "messaging": 20,
    "protocol": 15,
    "rpc": 15,
    "streams": 15,
    "transport": 25,
    "transport/shm": 20,
    "transport/sim": 20,
    "transport/tcp": 20,
    "transport/verbs": 15,
}
CHECK = re.compile(r"\b(?:CORDMA_(?:ASSERT|REQUIRE)(?:_OP)?|static_assert)\s*\(")
SHORT = 200  # lines: no density is required of a room up to this length


def room_of(name):
    """The room of a file of net/, or None for the one header that includes all others."""
    if name == "net/cordma.hpp":
        return None
    folder = posixpath.dirname(name).removeprefix("net").lstrip("/")
    _, room = include_directions.room_of(name) or ("net", "")
    return room or folder or "net"


def rooms(root):
    """{room: (lines, checks)} of net/."""
    lines, checks = collections.Counter(), collections.Counter()
    for name, text in tree.code(root):
        room = room_of(name) if name.startswith("net/") else None
        if room is None:
            continue
        lines[room] += text.count("\n")
        checks[room] += len(CHECK.findall(tree.blank(text)))
    return {room: (lines[room], checks[room]) for room in sorted(lines)}


def density(lines, checks):
    return 1000 * checks / lines if lines else 0


def check(root):
    findings = []
    for room, (lines, checks) in rooms(root).items():
        if room not in LEAST:
            findings.append(f"net/{room}: no density is asked of it; give it a line in LEAST")
        elif lines > SHORT and density(lines, checks) < LEAST[room]:
            missing = -(-(LEAST[room] * lines - 1000 * checks) // 1000)
            findings.append(f"net/{room}: {checks} checks in {lines} lines, {density(lines, checks):.1f} per 1,000; "
                            f"{LEAST[room]} are asked: {missing} more, at its seams")
    return findings


if __name__ == "__main__":
    ROOT = tree.root_of(sys.argv)
    print("checks per 1,000 lines:")
    for ROOM, (LINES, CHECKS) in rooms(ROOT).items():
        print(f"  {ROOM:16} {density(LINES, CHECKS):5.1f}  ({CHECKS} in {LINES}, least {LEAST.get(ROOM, '-')})")
    sys.exit(tree.report("check density", check(ROOT)))
