#!/usr/bin/env python3
"""Nothing half-done, switched off or private is left lying about. Usage: leftovers.py [ROOT]"""
import posixpath
import re
import sys

import tree

TOP_LEVEL = {"CMakeLists.txt", "README.md", "runtime", "net", "gpu", "apps", "tests", "bench"}
SELF = "tests/lint/"  # the checks and their tests contain the patterns themselves

# (error, files that are searched, pattern)
PATTERNS = [
    ("unfinished: do it or drop it", r".*", re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")),
    ("code switched off", r".*\.[ch]pp", re.compile(r"^[ \t]*#[ \t]*if[ \t]+(0|false)\b", re.M)),
    ("code commented out", r".*\.[ch]pp", re.compile(r"^[ \t]*//[^\n]*[;{}][ \t]*$", re.M)),
    ("a test commented out", r".*\.[ch]pp",
     re.compile(r"(//|/\*)[^\n]*\b(TEST_CASE|SUBCASE|CHECK|REQUIRE)\s*\(", re.M)),
    ("a test switched off", r"tests/.*\.[ch]pp",
     re.compile(r"doctest::(skip|may_fail|should_fail)|\bDISABLED_")),
    ("a test that sleeps on the real clock", r"tests/.*\.[ch]pp",
     re.compile(r"this_thread::sleep_|\b(usleep|nanosleep|clock_nanosleep)\s*\(|(?<![\w.>])(?<!\w::)sleep\s*\(")),
    ("a path of somebody's machine", r".*", re.compile(r"(?<![\w.}])/(root|home|work)/")),
]
RELATIVE = re.compile(r"(?<![\w}/$)])(?:\.\./)+[\w.-]+")


def text_findings(name, text):
    for what, where, pattern in PATTERNS:
        if re.fullmatch(where, name):
            for match in pattern.finditer(text):
                if what != "code commented out" or looks_like_code(match[0]):
                    yield f"{name}:{tree.line_of(text, match.start())}: {what}: {match[0].strip()}"
    for match in RELATIVE.finditer(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[0]))
        if target.startswith(".."):
            yield f"{name}:{tree.line_of(text, match.start())}: leads out of the project: {match[0]}"


def looks_like_code(comment):
    """A whole statement in a comment, not a sentence that happens to end in a brace or semicolon."""
    body = comment.strip()
    if body.startswith("///"):
        return False  # an example in the documentation of a declaration
    body = body.lstrip("/").strip()
    call_or_assignment = r"(?:[\w:<>,&*]+\s+){0,2}[\w:.>\[\]-]+(?:\(.*\)\s*[;{]|\s*=.*;)"
    return re.fullmatch(call_or_assignment + r"|return\b\s+[^ ]+;|[{}]", body) is not None


def check(root):
    top = {name.split("/")[0] for name in tree.names(root)}
    findings = [f"{name}: the top level holds nothing but {', '.join(sorted(TOP_LEVEL))} and dot-files"
                for name in sorted(top - TOP_LEVEL) if not name.startswith(".")]
    for name, text in tree.files(root):
        if not name.startswith(SELF):
            findings += text_findings(name, text)
    for name, text in tree.code(root):
        if re.fullmatch(r"tests/.*_test\.cpp", name) and "TEST_CASE" not in text:
            findings.append(f"{name}: a test file without a test")
    return findings


if __name__ == "__main__":
    sys.exit(tree.report("leftovers", check(tree.root_of(sys.argv))))
