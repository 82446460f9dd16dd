#!/usr/bin/env python3
"""tests/FEATURES.md names each test file, and only those that exist. Usage: features.py [--write] [ROOT]

Behind the heading FILES the page lists each test file with the first sentence of its first comment; --write
writes that list anew. Above it, what stands in backticks as FOLDER/NAME names a test file."""
import re
import sys
from pathlib import Path

import tree

PAGE = "tests/FEATURES.md"
FILES = "## Test files"
TEST = re.compile(r"tests/((?:[a-z_]+/)+)([a-z0-9_]+?)(?:_test\.cpp|_fuzz\.cpp|\.sh)")
FOLDERS = ("apps", "conformance", "copy", "fuzz", "gpu", "kv", "net", "protocol", "runtime", "schedule",
           "standalone", "transport", "verbs")
HELPERS = {"tests/apps/expect.sh", "tests/apps/tree.sh", "tests/apps/two_hosts.sh"}  # sourced by tests


def test_files(names):
    """{FOLDER/NAME: path} of all tests."""
    found = {}
    for name in sorted(names):
        match = TEST.fullmatch(name)
        if match and name.split("/")[1] in FOLDERS and name not in HELPERS:
            found[match[1] + match[2]] = name
    return found


def first_sentence(text):
    """Of the first comment of a file."""
    mark = "//" if not text.startswith("#") else "#"
    lines = []
    for line in text.splitlines():
        if line.startswith(mark) and not line.startswith("#!"):
            lines.append(line.lstrip("/# ").strip())
        elif lines or not line.startswith("#!"):
            break
    sentence = re.split(r"(?<=[.:])\s", " ".join(lines).replace("|", "/"), maxsplit=1)[0]
    return sentence.rstrip(".:")


def listing(root, tests):
    rows, folder = [], None
    for name, path in tests.items():
        if path.split("/")[1] != folder:
            folder = path.split("/")[1]
            rows += ["", f"### {folder}", "", "| file | contents |", "|---|---|"]
        rows.append(f"| `{name}` | {first_sentence((root / path).read_text())} |")
    return "\n".join(rows) + "\n"


def check(root):
    tests = test_files(tree.names(root))
    page = (root / PAGE).read_text()
    head, _, rest = page.partition(FILES + "\n")
    named = re.findall(r"`([a-z_]+/[a-z0-9_]+)`", head)
    findings = [f"{PAGE}: `{token}` is no test file" for token in named
                if token.split("/")[0] in FOLDERS and token not in tests]
    if rest != listing(root, tests):
        findings.append(f"{PAGE}: the list differs from the files; run python3 tests/lint/features.py --write")
    return findings


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root = Path(words[0] if words else ".").resolve()
    if "--write" in sys.argv:
        page = root / PAGE
        head = page.read_text().partition(FILES + "\n")[0]
        page.write_text(head + FILES + "\n" + listing(root, test_files(tree.names(root))))
        return 0
    return tree.report("features", check(root))


if __name__ == "__main__":
    sys.exit(main())
