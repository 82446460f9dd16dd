#!/usr/bin/env python3
"""No coroutine waits between the calls that open and close a region of the RDMA device: a file that
opens one closes it and holds no coroutine. Usage: regions.py [ROOT]"""
import re
import sys

import tree

# The opening call, and the calls of which one has to close.
REGIONS = [("ibv_wr_start", ("ibv_wr_complete", "ibv_wr_abort")),
           ("ibv_start_poll", ("ibv_end_poll",))]
COROUTINE = re.compile(r"\bco_(?:await|yield|return)\b")


def calls(name, text):
    return [match.start() for match in re.finditer(rf"\b{name}\s*\(", text)]


def file_findings(name, text):
    for opens, closes in REGIONS:
        opened = calls(opens, text)
        if not opened:
            continue
        line = tree.line_of(text, opened[0])
        for missing in (c for c in closes if not calls(c, text)):
            yield f"{name}:{line}: {opens} without {missing}: a region is closed by who opened it"
        for match in COROUTINE.finditer(text):
            yield (f"{name}:{tree.line_of(text, match.start())}: {match[0]} in a file that calls {opens}: "
                   "a region must not outlive a suspension")


def check(root):
    return [finding for name, text in tree.code(root) for finding in file_findings(name, tree.blank(text))]


if __name__ == "__main__":
    sys.exit(tree.report("regions", check(tree.root_of(sys.argv))))
