"""Reads the output of valgrind's callgrind, and the names of C++ functions in it.

The format: https://valgrind.org/docs/manual/cl-format.html. Run with --separate-callers, callgrind gives each
function the calls that led to it: `fn=callee'caller'caller of the caller`. So a profile is a tree of calls.
"""
from __future__ import annotations

import functools
import re
from dataclasses import dataclass

Path = tuple[str, ...]  # from the outermost caller to the function itself


@dataclass
class Node:
    """A function on one path of calls."""

    own: int = 0          # instructions of the function itself, all calls together
    calls: int = 0        # number of calls
    line: int = 1 << 62   # line of the first call in its caller; functions are sorted by it


class FormatError(ValueError):
    """It is no output of callgrind; the message names the line."""


HEADER = re.compile(r"([A-Za-z][\w ]*): ?(.*)")
NAMED = re.compile(r"(fn|cfn|fl|fi|fe|cfi|cfl|ob|cob)=(?:\((\d+)\))?\s?(.*)")
CALLS = re.compile(r"calls=(\d+)\b")
NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
RECURSION = re.compile(r"\d+")


def path_of(name: str) -> Path:
    """A name with its callers; the marks of recursion ('2) are left out."""
    return tuple(part for part in reversed(name.split("'")) if not RECURSION.fullmatch(part))


class _Reader:
    def __init__(self) -> None:
        self.nodes: dict[Path, Node] = {}
        self.names: dict[str, str] = {}
        self.positions = ["line"]
        self.events: list[str] = []
        self.at: list[int] = [0]
        self.function: Path | None = None
        self.callee: Path | None = None
        self.calls: int | None = None

    def node(self, path: Path) -> Node:
        return self.nodes.setdefault(path, Node())

    def name(self, number: str | None, text: str) -> str:
        """The name that a number stands for; it comes with its first use."""
        if number is None:
            return text
        if text:
            self.names[number] = text
        return self.names[number]

    def line(self, text: str) -> None:
        if not text or text.startswith("#"):
            return
        if header := HEADER.fullmatch(text):
            self.header(header[1], header[2])
        elif calls := CALLS.match(text):
            self.calls = int(calls[1])
        elif named := NAMED.fullmatch(text):
            self.named(named[1], named[2], named[3])
        elif text[0] in "0123456789+-*":
            self.cost(text.split())
        elif not text.startswith(("jump=", "jcnd=", "jfi=", "jfn=")):
            raise ValueError("no such line")

    def header(self, key: str, value: str) -> None:
        if key == "positions":
            self.positions = value.split()
            self.at = [0] * len(self.positions)
        elif key == "events":
            self.events = value.split()

    def named(self, what: str, number: str | None, text: str) -> None:
        if what == "fn":
            self.function = path_of(self.name(number, text))
        elif what == "cfn":
            self.callee = path_of(self.name(number, text))

    def cost(self, words: list[str]) -> None:
        """Where, and how much: of the function itself, or behind calls= of what it called."""
        for place, word in enumerate(words[:len(self.positions)]):
            if word != "*":
                step = int(word.lstrip("+-"), 0)
                here = self.at[place]
                self.at[place] = here + step if word[0] == "+" else here - step if word[0] == "-" else step
        if self.function is None:
            raise ValueError("a cost of no function")
        if self.calls is None:
            # trailing zeros are omitted
            costs = [int(word) for word in words[len(self.positions):]]
            instructions = self.events.index("Ir")
            self.node(self.function).own += costs[instructions] if instructions < len(costs) else 0
            return
        if self.callee is None:
            raise ValueError("calls of no function")
        called = self.node(self.callee)
        called.calls += self.calls
        called.line = min(called.line, self.at[self.positions.index("line")])
        self.calls = None


def parse(text: str) -> dict[Path, Node]:
    """The tree of calls. Raises FormatError."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.line(line.rstrip())
        except (ValueError, KeyError, IndexError) as e:
            raise FormatError(f"line {number} of the profile is not callgrind's: {line[:80]!r} ({e})") from e
    if not reader.events:
        raise FormatError("the profile has no line `events:`")
    return reader.nodes


# ---- names ----

OPENING, CLOSING = "<([{", ">)]}"


def without_templates(name: str) -> str:
    """The name with <> in place of the arguments of templates."""
    out, depth, at = [], 0, 0
    while at < len(name):
        operator = re.match(r"operator\s*(<=>|->\*?|<<=?|>>=?|[<>]=?)", name[at:])
        c = name[at]
        if operator and (at == 0 or not re.match(r"\w", name[at - 1])):
            if depth == 0:
                out.append(operator[0])
            at += len(operator[0])
            continue
        if c == "<":
            out += ["<"] if depth == 0 else []
            depth += 1
        elif c == ">" and name[at - 1] != "-":
            depth -= 1
            out += [">"] if depth == 0 else []
        elif depth == 0:
            out.append(c)
        at += 1
    return "".join(out)


@functools.cache
def function_of(name: str) -> str:
    """`namespace::class::function(parameters)` without arguments of templates, return type, or what compilers
    append: the same for each part of a coroutine and each instance of a template."""
    name = without_templates(name.removeprefix("non-virtual thunk to ").removeprefix("virtual thunk to "))
    name = re.sub(r"\s*\[clone [^\]]*\]", "", name)
    end = _parameters(name)
    head, rest = name[:end], name[end:]
    depth, begin, at = 0, 0, 0
    while at < len(head):
        if re.match(r"\boperator\b", head[at:]) and (at == 0 or not re.match(r"\w", head[at - 1])):
            break  # a blank may be part of its name
        depth += (head[at] in OPENING) - (head[at] in CLOSING)
        if head[at] == " " and depth == 0:
            begin = at + 1
        at += 1
    return head[begin:].lstrip("*&") + rest


def _parameters(name: str) -> int:
    """Where the list of parameters begins; the length where there is none."""
    at = 0
    while at < len(name):
        if name.startswith("(anonymous namespace)", at):
            at += len("(anonymous namespace)")
        elif name.startswith("operator()", at) and (at == 0 or not re.match(r"\w", name[at - 1])):
            at += len("operator()")
        elif name[at] in "{[":
            at = _behind(name, at)
        elif name.startswith("decltype(", at):
            at = _behind(name, at + len("decltype"))
        elif name[at] == "(":
            behind = _behind(name, at)
            if not name.startswith("::", behind):  # else a function within another one
                return at
            at = behind
        else:
            at += 1
    return len(name)


def _behind(name: str, at: int) -> int:
    """Behind the bracket that opens at `at`."""
    depth = 0
    for k in range(at, len(name)):
        depth += (name[k] in "([{") - (name[k] in ")]}")
        if depth == 0:
            return k + 1
    return len(name)


def qualified(function: str) -> str:
    """The name alone, without parameters."""
    return function[:_parameters(function)]
