#!/usr/bin/env python3
"""Finds the coroutine forms that compilers get wrong. Usage: coro_lint.py [ROOT | FILE...]

One co_await per statement; its result goes to a named local, a named variable or co_return, or is
discarded. Beside it stand no braces but empty awaiters and {.x = ...} options, no ternary, no && or ||,
no capturing lambda. A lambda that is a coroutine captures nothing. Options that awaited functions take have
trivial destructors, and a static_assert says so. The reasons are in tests/compiler/README.md.
"""
import pathlib
import re
import sys

import tree

OPEN, CLOSE = "([{", ")]}"
# Allowed text before the co_await of a statement: nothing, `type name =`, `name =`, a discard.
PREFIX = re.compile(r"(co_return|\(void\)|[\w:<>,\s&*.()\[\]-]*[\w\])>]\s*[-+*|&]?=)?")
CONTROL = re.compile(r"\s*(?:else\b|do\b|case\b[^:;?]*(?:::[^:;?]*)*:(?!:)|default\s*:|"
                     r"(?:if|for|while|switch)(?:\s+constexpr)?\s*(?=\())")
# A brace that opens a block of statements follows one of these.
BLOCK_BEFORE = re.compile(r"([;{})]|\b(else|do|try|const|noexcept|mutable|override|final)|"
                          r"(?<!:):|->\s*[\w:<>,\s&*]+)\s*$")
LAMBDA = re.compile(r"(?<![\w\])\[])\s*\[(?!\[)(?P<captures>[^\[\]]*)\]\s*"
                    r"(?=[({<]|mutable\b|noexcept\b|->)")
COROUTINE = re.compile(r"\bco_(await|return|yield)\b")


class Text:
    """A source without comments, literals and directives, with its brackets matched."""

    def __init__(self, source):
        def directive(match):
            return re.sub(r"[^\n]", " ", match[0])
        self.s = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", directive, tree.blank(source), flags=re.M)
        self.match = {}
        self.around = [-1] * (len(self.s) + 1)  # offset -> the innermost bracket open there
        stack = []
        for i, c in enumerate(self.s):
            if c in CLOSE and stack:
                opened = stack.pop()
                self.match[opened], self.match[i] = i, opened
            self.around[i] = stack[-1] if stack else -1
            if c in OPEN:
                stack.append(i)

    def line(self, at):
        return tree.line_of(self.s, at)

    def is_block(self, brace):
        return self.s[brace] == "{" and BLOCK_BEFORE.search(self.s[max(0, brace - 200):brace]) is not None

    def start(self, at):
        """Where the statement around `at` begins, looking no further out than its bracket."""
        i = at
        while i > 0:
            c = self.s[i - 1]
            if c in ";{" or c in "([" or c == "}" and self.is_block(self.match.get(i - 1, i - 1)):
                return i
            i = self.match[i - 1] if c in CLOSE and i - 1 in self.match else i - 1
        return 0

    def end(self, at):
        i = at
        while i < len(self.s):
            c = self.s[i]
            if c == ";" or c in CLOSE:
                return i
            i = self.match.get(i, i) + 1 if c in OPEN else i + 1
        return i

    def lambdas(self, begin=0, end=None):
        """(offset of [, captures, offset of the body's {) of every lambda between begin and end."""
        for m in LAMBDA.finditer(self.s, begin, len(self.s) if end is None else end):
            opening = m.end("captures") + 1
            i = opening
            while i < len(self.s) and self.s[i] not in "{;":
                i = self.match.get(i, i) + 1 if self.s[i] in "([" else i + 1
            if i < len(self.s) and self.s[i] == "{" and i in self.match:
                yield m.start("captures") - 1, m["captures"].strip(), i


def strip_control(text, prefix_at, at):
    """Where the statement proper begins after `if (...)`, `else`, `case x:` and the like."""
    while True:
        m = CONTROL.match(text.s, prefix_at, at)
        if not m:
            return prefix_at
        nxt = m.end()
        if text.s[nxt:nxt + 1] == "(":
            if text.match.get(nxt, at) >= at:
                return prefix_at
            nxt = text.match[nxt] + 1
        prefix_at = nxt


def without_lambda_bodies(text, begin, end):
    """The text from begin to end with the bodies of captureless lambdas blanked."""
    out = list(text.s[begin:end])
    for _, captures, body in text.lambdas(begin, end):
        if not captures:
            for i in range(body, min(text.match[body] + 1, end)):
                out[i - begin] = " "
    return "".join(out)


def bracket_finding(text, at):
    """What is wrong with the bracket that co_await stands in, if anything."""
    around = text.around[at]
    if around < 0 or text.is_block(around):
        return None
    if text.s[around] != "(":
        return "inside braces"
    before = text.s[text.start(around):around]
    if re.search(r"\b(if|while|switch)(\s+constexpr)?\s*$", before):
        return "in a condition"
    if re.search(r"\bfor\s*$", before):
        head = text.s[around + 1:at]
        return None if re.search(r"(?<!:):(?!:)\s*$", head) and "[" not in head else "in the head of a for"
    if re.search(r"static_cast\s*<\s*void\s*>\s*$", before):
        return None
    return "as an argument"


def statement_findings(text, at):
    bracket = bracket_finding(text, at)
    if bracket:
        yield bracket
        return
    begin = strip_control(text, text.start(at), at)
    end = text.end(at)
    prefix = text.s[begin:at].strip()
    rest = without_lambda_bodies(text, at + len("co_await"), end)
    if re.match(r"(const\s+)?auto\s*&*\s*\[", prefix):
        yield "a structured binding"
    elif text.s[text.around[at]] != "(" and not PREFIX.fullmatch(prefix):
        yield "inside a larger expression"
    if rest.lstrip().startswith("*"):
        yield "before a dereference: name what is awaited"
    if re.search(r"\bco_await\b", rest):
        yield "two in one statement"
    if "?" in prefix + rest:
        yield "beside a ternary"
    if re.search(r"&&(?!\s*[\w:]+\s*[,)=])|\|\|", rest):
        yield "beside && or ||"
    if any(captures for _, captures, _ in text.lambdas(at, end)):
        yield "beside a capturing lambda"
    whole_is_empty_awaiter = re.fullmatch(r"\s*[\w:]+(<[^;]*>)?\s*\{\s*\}\s*", rest)
    if not whole_is_empty_awaiter and re.search(r"\{(?!\s*\.)", rest):
        yield "beside braces: name the value, or construct it with parentheses"


def coroutine_lambdas(text):
    found = list(text.lambdas())
    for opening, captures, body in found:
        if not captures:
            continue
        end = text.match[body]
        inner = list(text.s[body:end])
        for _, _, nested in found:
            if body < nested < end:
                inner[nested - body:text.match[nested] - body] = " " * (text.match[nested] - nested)
        if COROUTINE.search("".join(inner)):
            yield opening


def lint_text(source):
    """Sorted (line, what) of every statement that breaks a rule in one file."""
    text = Text(source)
    found = set()
    for m in re.finditer(r"\bco_await\b", text.s):
        if re.search(r"\boperator\s*$", text.s[:m.start()]):
            continue
        found |= {(text.line(m.start()), f"co_await {what}") for what in statement_findings(text, m.start())}
    for at in coroutine_lambdas(text):
        found.add((text.line(at), "a coroutine lambda with captures: they die with the closure"))
    # Also checked in macros, which Text leaves out.
    for m in re.finditer(r"\(\s*\{[^{}]*;", tree.blank(source)):
        found.add((text.line(m.start()), "a statement expression"))
    return sorted(found)


AWAITABLE = r"(?:task|operation|\w*_operation|\w*_awaiter)"
TAKES_OPTIONS = re.compile(rf"\b{AWAITABLE}\b(?:<[^;{{}}()]*>)?\s+[\w:]+\s*\((?P<parameters>(?:[^;{{}}]|\{{\}})*)\)")
ASSERTED = re.compile(r"is_trivially_destructible_v<\s*(?:\w+::)*(\w+)\s*>")


def options_without_promise(sources):
    """Options of awaited functions are written as {.x = ...} in the awaiting statement, which is only
    right for trivially destructible types: each such type has a static_assert that says it is one."""
    taken, asserted = {}, set()
    for name, source in sources:
        s = tree.blank(source)
        asserted |= set(ASSERTED.findall(s))
        for m in TAKES_OPTIONS.finditer(s):
            for options in re.findall(r"\b(\w+_options|\w+Options)\b", m["parameters"]):
                taken.setdefault(options, f"{name}:{tree.line_of(s, m.start())}")
    return [f"{where}: {options} is awaited with, but no static_assert("
            f"std::is_trivially_destructible_v<{options}>) stands beside it"
            for options, where in sorted(taken.items()) if options not in asserted]


def check(sources):
    sources = list(sources)
    findings = [f"{name}:{line}: {what}" for name, text in sources for line, what in lint_text(text)]
    return findings + options_without_promise(sources)


def main():
    paths = [pathlib.Path(p) for p in sys.argv[1:]] or [pathlib.Path(".")]
    if paths[0].is_dir():
        sources = tree.code(paths[0].resolve())
    else:
        sources = ((str(p), p.read_text()) for p in paths)
    return tree.report("coroutine forms", check(sources))


if __name__ == "__main__":
    sys.exit(main())
