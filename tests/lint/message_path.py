#!/usr/bin/env python3
"""The names on the path of a message in net/README.md exist. Usage: message_path.py [ROOT]

It looks at text in backticks in the section SECTION, and at `name()` in its fenced blocks:
  * `shm/ring.hpp`, `net/messages.cpp`: the end of the path of a file;
  * `copy_bytes()`: a function of runtime/ or net/ has that name;
  * `ring_writer::put()`, `ring_writer::limit_`: that class, or one that it derives from, has such a function or
    member; with more in front (`shm::ring_writer::put()`) that is a namespace or a class;
  * `ring_writer`: the code has the word.
Anything else, such as `co_await op` or `a < b`, is no name. A missing section is a finding.
"""
import collections
import re
import sys

import members
import tree

README = "net/README.md"
SECTION = "The path of a message"
FILE = re.compile(r"[\w./-]*\w\.(?:hpp|cpp|md|py|sh|txt|cmake)")
NAME = re.compile(r"(?:[A-Za-z_]\w*::)*~?[A-Za-z_]\w*(?:\([^()]*\))?")
# Keywords of the language, which need not occur in the code.
LANGUAGE = {"co_await", "co_return", "co_yield", "false", "true", "nullptr", "noexcept", "inline", "const", "virtual"}


def section(text):
    """(first line, text) of the section, without its heading; None where it is missing."""
    start = re.search(rf"^## {re.escape(SECTION)}[ \t]*$", text, re.M)
    if start is None:
        return None
    end = re.compile(r"^##? ", re.M).search(text, start.end())
    return tree.line_of(text, start.end()), text[start.end():end.start() if end else len(text)]


BLOCK = re.compile(r"^```.*?^```[^\n]*$", re.S | re.M)
CALL = re.compile(r"(?<![\w:])(?:[A-Za-z_]\w*::)*~?[A-Za-z_]\w*\(\)")


def named(text):
    """(offset, name), one by one: text in backticks, and functions in fenced blocks."""
    found = [(block.start() + m.start(), m[0]) for block in BLOCK.finditer(text) for m in CALL.finditer(block[0])]
    text = BLOCK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return sorted(found + [(m.start(), m[1].strip()) for m in re.finditer(r"`([^`\n]+)`", text)])


class Sources:
    """The names of the code."""

    def __init__(self, root):
        self.files = tree.names(root)
        self.words, self.called = set(), set()
        self.scopes = collections.defaultdict(set)  # class or namespace -> the words in its body
        self.bases = collections.defaultdict(set)
        for name, text in tree.code(root):
            if name.startswith(members.ROOMS):
                self.read(members.Reader(name, text))

    def read(self, reader):
        words = reader.words
        self.words.update(words)
        self.called.update(word for word, behind in zip(words, words[1:]) if behind == "(")
        for at, word in enumerate(words):
            if word in (*members.KEYS, "namespace"):
                self.read_scope(reader, at)
            elif word == "::" and 0 < at < len(words) - 1:
                self.scopes[words[at - 1]].update(words[at + 1:at + 3])

    def read_scope(self, reader, at):
        if reader.words[at] == "namespace":
            opening = reader.opens_scope(at + 1, len(reader.words))
            head = (None, opening) if opening is not None else None
            names = reader.words[at + 1:opening] if opening is not None else []
        else:
            head = reader.class_head(at, len(reader.words))
            names = [re.sub(r"<.*", "", head[0]).rpartition("::")[2]] if head else []
        if head is None:
            return
        opening = head[1]
        body = reader.words[opening + 1:reader.skip(opening) - 1]
        for name in names:
            self.scopes[name].update(body)
            if reader.words[at] != "namespace" and ":" in reader.words[at:opening]:
                self.bases[name].update(reader.words[reader.words.index(":", at):opening])

    def has_file(self, path):
        return any(name == path or name.endswith("/" + path) for name in self.files)

    def has_member(self, scope, name, seen=()):
        """Whether the class, the namespace or a base of it has the word."""
        if scope in seen or scope not in self.scopes:
            return False
        return name in self.scopes[scope] or any(self.has_member(base, name, (*seen, scope))
                                                 for base in self.bases[scope])


def what_is_missing(token, sources):
    """A sentence, or None where the token is no name or exists."""
    if FILE.fullmatch(token):
        return None if sources.has_file(token) else "no file has this path"
    if not NAME.fullmatch(token) or token in LANGUAGE:
        return None
    is_function = token.endswith(")")
    *scopes, name = re.sub(r"\(.*", "", token).split("::")
    if scopes[:1] == ["std"]:
        return None
    for scope in scopes:
        if scope not in sources.scopes:
            return f"no class and no namespace is called {scope}"
    if is_function and name.lstrip("~") not in sources.called:
        return f"no function is called {name}"
    if scopes and not sources.has_member(scopes[-1], name.lstrip("~")):
        return f"{scopes[-1]} has no {name}, nor has a class that it derives from"
    return None if name.lstrip("~") in sources.words else f"the code has no {name}"


def check(root):
    readme = root / README
    found = section(readme.read_text()) if readme.is_file() else None
    if found is None:
        return [f"{README} has no section '## {SECTION}'"]
    first, text = found
    sources = Sources(root)
    missing = [(offset, token, what_is_missing(token, sources)) for offset, token in named(text)]
    return [f"{README}:{first + text.count(chr(10), 0, offset)}: `{token}`: {why}"
            for offset, token, why in missing if why]


if __name__ == "__main__":
    sys.exit(tree.report("message path", check(tree.root_of(sys.argv))))
