#!/usr/bin/env python3
"""Counts wording that a newcomer has to read twice, in comments, strings and documents.

    prose.py [ROOT]                      holds each folder to prose_limits.txt
    prose.py [ROOT] --lines [FOLDER ...] prints the places instead
    prose.py [ROOT] --strings            prints the places in string literals of apps, net and runtime
    prose.py [ROOT] --write              lowers the limits to the counts; a limit never rises

The patterns are places to look, no verdicts: noun clauses as subjects, programs as persons, sentences without a
subject. prose_exempt.txt holds texts that Redis, rsync or rdma-core fix, one per line."""
import argparse
import re
import sys
from pathlib import Path

import tree

HERE = Path(__file__).resolve().parent
LIMITS, EXEMPT = "tests/lint/prose_limits.txt", HERE / "prose_exempt.txt"
BEHIND_WHAT = ("is was are were has had have comes? came goes went lies lay waits? stands? stood does did it they he she we one "
               "that this those these a an the of each both other others there can could may must will would belongs? needs? "
               "takes? took arrived? arrives started? follows? remains? ends? began begins? any every no").split()
PATTERNS = [re.compile(pattern, re.I) for pattern in (
    r"\bwhat(?:ever)?\s+(?:" + "|".join(BEHIND_WHAT) + r")\b",
    r"\b(?:tells?|told|telling|says?|said|saying|speaks?|spoken|asks?\s+nobody|believed?|believes)\b",
    r"\b(?:whoever|whomever|whom|whose|he|his|him|somebody|someone|nobody|everybody|strangers?)\b",
    r"\b(?:who|those\s+who|all\s+who)\b",
    r"(?:^|[.;:]\s+)(?:Of|To|For|By|In)\s+(?:what|whom|which|those|all\s+that|one\s+that)\b",
    r"\b(?:as\s+it\s+is(?:\s+anyway)?|that\s+is\s+there|is\s+there\s+already|of\s+its\s+own|by\s+itself\s+alone|in\s+the\s+place\s+of)\b",
    r"\b(?:so\s+many|so\s+much|for\s+so\s+long|at\s+the\s+most|but\s+for|save\s+(?:that|what|where|in|for))\b",
)]
CXX = {".cpp", ".hpp", ".h"}
HASH = {".py", ".sh", ".cmake", ".txt"}
WITH_STRINGS = ("apps/", "net/", "runtime/")
# Spells the patterns out, or quotes other projects.
SELF = ("tests/lint/prose", "tests/lint/self_test.py")


def places(text):
    return [match[0] for pattern in PATTERNS for match in pattern.finditer(text)]


def comments_and_strings(line, suffix):
    """([comments], [strings of three words or more]) of a line of code."""
    if suffix in HASH:
        match = re.search(r"(?:^|\s)#(?!!)(.*)$", line)
        return ([match[1]] if match else []), []
    comments = []
    match = re.search(r"(?<![:\"])//+(.*)$", line)
    if match:
        comments.append(match[1])
        line = line[:match.start()]
    if line.lstrip().startswith("#include"):
        return comments, []
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    return comments, [s for s in strings if s.count(" ") >= 2]


def prose(name, text):
    """(line, text, whether it is a string) of all prose of a file."""
    suffix = Path(name).suffix
    if suffix == ".md":
        fenced = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not line.startswith("    "):
                yield number, re.sub(r"`[^`]*`", "x", line), False
        return
    for number, line in enumerate(text.splitlines(), 1):
        comments, strings = comments_and_strings(line, suffix)
        for one in comments:
            yield number, one, False
        for one in strings:
            yield number, one, True


def findings(root, exempt=()):
    """(file, line, text, places, whether it is a string)."""
    for name, text in tree.files(root):
        path = Path(name)
        known = path.suffix in CXX | HASH | {".md"} or path.name == "run"
        if not known or "corpus" in path.parts or name.startswith(SELF):
            continue
        for line, one, is_string in prose(name, text):
            found = [] if one.strip() in exempt else places(one)
            if found:
                yield name, line, one.strip(), found, is_string


def folder(name):
    """The unit that has a limit: three folders deep in net and apps, two elsewhere."""
    parts = name.split("/")[:-1]
    return "/".join(parts[:3 if parts[:1] in (["net"], ["apps"]) else 2]) or "."


def counts(root, exempt=()):
    total = {}
    for name, _, _, found, _ in findings(root, exempt):
        total[folder(name)] = total.get(folder(name), 0) + len(found)
    return total


def read_limits(root):
    path = root / LIMITS
    rows = (line.split() for line in path.read_text().splitlines() if line and line[0] != "#") if path.exists() else ()
    return {row[0]: int(row[1]) for row in rows}


def check(root):
    limits, now = read_limits(root), counts(root, exempt_texts())
    return [f"{name}: {n} places, the limit is {limits.get(name, 0)}; prose.py --lines {name} prints them"
            for name, n in sorted(now.items()) if n > limits.get(name, 0)]


def lower(root):
    limits, now = read_limits(root), counts(root, exempt_texts())
    first = not limits
    kept = {name: n if first else min(n, limits.get(name, 0)) for name, n in now.items()}
    lines = ["# Places of each folder, at most: prose.py. They only fall."]
    lines += [f"{name} {n}" for name, n in sorted(kept.items()) if n]
    (root / LIMITS).write_text("\n".join(lines) + "\n")


def exempt_texts():
    return set(EXEMPT.read_text().splitlines()) if EXEMPT.exists() else set()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("root", nargs="?", default=".")
    options.add_argument("--lines", nargs="*", metavar="FOLDER")
    options.add_argument("--strings", action="store_true")
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    root = Path(chosen.root).resolve()
    if chosen.write:
        lower(root)
        return 0
    if chosen.lines is not None or chosen.strings:
        for name, line, text, found, is_string in findings(root, exempt_texts()):
            wanted = not chosen.lines or name.startswith(tuple(chosen.lines))
            if wanted and (not chosen.strings or (is_string and name.startswith(WITH_STRINGS))):
                print(f"{name}:{line}: {found} {text[:150]}")
        return 0
    return tree.report("prose", check(root))


if __name__ == "__main__":
    sys.exit(main())
