#!/usr/bin/env python3
"""Classes with mutable state are small and closed. Usage: members.py [--list] [ROOT]

Counted are the data members of each class, struct and union of runtime/ and net/. A nested class is counted on its
own; as a member it is one, as is a union with all its alternatives. No members are static, constexpr, using, friend,
functions and what a base class has.

A class has mutable state if it has a data member and a member function that may change it: neither static nor const,
nor a constructor, a destructor or an assignment, nor one that is defaulted or deleted. It has at most MEMBERS data
members, and at most PUBLIC of them are public and not const; a reference is as good as const. A record, which no function
of its own changes, may have as many as it likes.

KNOWN holds the classes that exceeded a limit when the check came. It only shrinks: a class that is better than
its entry, or gone, is a finding. --list prints each class with its number of members and of public ones.

The check reads text: what stands behind #if and #else counts twice, and members that a macro makes are not seen.
"""
import collections
import re
import sys

import tree

MEMBERS = 30
PUBLIC = 0
ROOMS = ("runtime/", "net/")

# Class -> (members, public members that are not const). Within the limit a class may have more members than its entry.
KNOWN = {}

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->\*?|<=>|<=|\[\[|\]\]|&&|\S")
PAIRS = {"(": ")", "[": "]", "{": "}", "[[": "]]"}
KEYS = ("class", "struct", "union")
NO_MEMBER = {"using", "friend", "typedef", "static_assert", "static", "constexpr", "constinit", "namespace", "extern"}
# Words before parentheses that are not parameters.
NO_PARAMETERS = {"alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__", "__declspec"}

Class = collections.namedtuple("Class", "name file line members public mutators")


def tokens_of(text):
    """[(token, offset)] without comments, literals' contents and lines of the preprocessor."""
    s = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m[0]), tree.blank(text), flags=re.M)
    return [(m[0], m.start()) for m in TOKEN.finditer(s)]


class Reader:
    """The classes of one file."""

    def __init__(self, name, text):
        self.file, self.text = name, text
        self.tokens = tokens_of(text)
        self.words = [word for word, _ in self.tokens]
        self.closing = self.match_brackets()
        self.found = []

    def match_brackets(self):
        closing, open_ = {}, []
        for at, word in enumerate(self.words):
            if word in PAIRS:
                open_.append(at)
            elif word in PAIRS.values():
                # ]] may close two separate [, as in a[b[i]].
                for _ in range(2 if word == "]]" and open_ and self.words[open_[-1]] == "[" else 1):
                    if open_:
                        closing[open_.pop()] = at
        return closing

    def skip(self, at):
        """Behind the bracket that opens at `at`."""
        return self.closing.get(at, len(self.words) - 1) + 1

    def skip_angles(self, at):
        """Behind the arguments of a template that begin at `at`; `at` + 1 where < only compares."""
        depth, here = 0, at
        while here < len(self.words):
            word = self.words[here]
            if word in PAIRS and word != "{":
                here = self.skip(here)
                continue
            if word in (";", "{", "}", ")", "]"):
                break
            depth += (word == "<") - (word == ">")
            here += 1
            if depth == 0:
                return here
        return at + 1

    def is_template_list(self, at):
        before = self.words[at - 1] if at else ""
        return self.words[at] == "<" and re.match(r"[A-Za-z_]", before) is not None and before != "operator"

    def step(self, at):
        """Behind the token at `at`, or behind the brackets that open there."""
        if self.words[at] in PAIRS:
            return self.skip(at)
        return self.skip_angles(at) if self.is_template_list(at) else at + 1

    # ---- scopes ----

    def read(self):
        self.scope(0, len(self.words), ())
        return self.found

    def scope(self, at, end, outer):
        """What stands at namespace scope between `at` and `end`."""
        while at < end:
            at = self.declaration(at, end, outer, None, "public")

    def class_head(self, at, end):
        """(name, opening brace) of the class that is defined at `at`, where its key stands; else None."""
        here, parts = at + 1, []
        while here < end:
            word = self.words[here]
            if word in ("[[", "alignas"):
                here = self.skip(here + (word == "alignas"))
            elif word == "{":
                return "".join(parts), here
            elif word == "final" and here + 1 < end and self.words[here + 1] in ("{", ":"):
                here += 1
            elif word == ":" and here > at:
                return self.behind_bases("".join(parts), here, end)
            elif word == "::" or (re.match(r"[A-Za-z_]", word) and (not parts or parts[-1].endswith("::"))):
                parts.append(word)
                here += 1
            elif self.is_template_list(here):
                after = self.skip_angles(here)
                parts.append("".join(self.words[here:after]))
                here = after
            else:
                return None
        return None

    def behind_bases(self, name, at, end):
        while at < end and self.words[at] not in ("{", ";"):
            at = self.skip_angles(at) if self.is_template_list(at) else at + 1
        return (name, at) if at < end and self.words[at] == "{" else None

    def class_(self, key, name, opening, outer):
        """Notes the class that this key defines, and whose body opens there; what was counted."""
        scope = (*outer, name or "(unnamed)")
        mine = {"members": 0, "public": 0, "mutators": 0}
        access = "private" if key == "class" else "public"
        at, end = opening + 1, self.skip(opening) - 1
        place = len(self.found)
        while at < end:
            if self.words[at] in ("public", "private", "protected") and self.words[at + 1] == ":":
                access, at = self.words[at], at + 2
            else:
                at = self.declaration(at, end, scope, mine, access)
        if key == "union":
            mine["members"], mine["public"] = min(mine["members"], 1), min(mine["public"], 1)
        if name:
            line = tree.line_of(self.text, self.tokens[opening][1])
            self.found.insert(place, Class("::".join(scope), self.file, line, **mine))
        return mine

    def local_classes(self, at, end, outer):
        """Those that are defined in the body of a function."""
        while at < end:
            head = None
            if self.words[at] in KEYS and self.words[at - 1] in ("{", "}", ";"):
                head = self.class_head(at, end)
            if head:
                self.class_(self.words[at], *head, outer)
                at = self.skip(head[1])
            else:
                at += 1

    # ---- declarations ----

    def declaration(self, at, end, outer, mine, access):
        """Reads one, for the class whose counts are `mine`; where the next one begins."""
        first = at
        while at < end:  # the parts in front
            if self.words[at] == "template" and at + 1 < end and self.words[at + 1] == "<":
                at = self.skip_angles(at + 1)
            elif self.words[at] == "[[":
                at = self.skip(at)
            elif self.words[at] == "requires":
                at = self.behind_constraint(at + 1, end)
            else:
                break
        if at >= end:
            return end
        word = self.words[at]
        if word == ";" or word == "}":
            return at + 1
        if word in ("namespace", "extern") and mine is None:
            opened = self.opens_scope(at, end)
            if opened is not None:
                return self.namespace(at, opened, outer)
        specifiers = at
        while self.words[specifiers] in ("static", "inline", "constexpr", "constinit", "mutable", "const", "typedef"):
            specifiers += 1
        if self.words[specifiers] in KEYS:
            head = self.class_head(specifiers, end)
            if head:
                return self.definition(at, specifiers, head, end, outer, mine, access)
            stop = self.end_of_statement(specifiers, end)
            if re.fullmatch(r"[\w:]+", " ".join(self.words[specifiers + 1:stop]).replace(" :: ", "::")):
                return stop + 1  # only a declaration of the class
        return self.other(first, at, end, outer, mine, access)

    def behind_constraint(self, at, end):
        """Behind a requires clause: terms that && and || join."""
        while at < end:
            if self.words[at] == "!":
                at += 1
            if self.words[at] == "requires":
                at += 1
                if self.words[at] == "(":
                    at = self.skip(at)
                at = self.skip(at)
            elif self.words[at] == "(":
                at = self.skip(at)
            else:
                while at < end and (re.match(r"\w", self.words[at]) or self.words[at] == "::"):
                    at += 1
                    if at < end and self.is_template_list(at):
                        at = self.skip_angles(at)
                        if at < end and self.words[at] != "::":
                            break
            if self.words[at] == "&&":
                at += 1
            elif self.words[at:at + 2] == ["|", "|"]:
                at += 2
            else:
                break
        return at

    def opens_scope(self, at, end):
        while at < end and self.words[at] not in ("{", ";", "=", "("):
            at = self.step(at)
        return at if at < end and self.words[at] == "{" else None

    def namespace(self, at, opening, outer):
        name = "".join(w for w in self.words[at + 1:opening] if w != "inline")
        if self.words[at] == "namespace":
            outer = (*outer, name) if name else outer
        elif not re.fullmatch(r"_*", name):
            return self.skip(opening)
        self.scope(opening + 1, self.skip(opening) - 1, outer)
        return self.skip(opening)

    def definition(self, at, key, head, end, outer, mine, access):
        """A class, and what is declared of it at once."""
        inner = self.class_(self.words[key], *head, outer)
        behind = self.skip(head[1])
        stop = self.end_of_statement(behind, end)
        if mine is not None and not NO_MEMBER & set(self.words[at:key]):
            if stop > behind:
                self.note_data(at, behind, stop, mine, access)
            elif not head[0]:  # its members belong to the class
                mine["members"] += inner["members"]
                mine["public"] += inner["public"] if access == "public" else 0
        return stop + 1

    def end_of_statement(self, at, end):
        while at < end and self.words[at] != ";":
            at = self.step(at)
        return at

    def other(self, first, at, end, outer, mine, access):
        """A function, or data, or something without either."""
        if self.words[at] in ("enum", "using", "typedef", "static_assert"):
            return self.end_of_statement(at, end) + 1
        here = at
        while here < end:
            word = self.words[here]
            if word in (";", "=", "{", ":"):
                break
            if word == "operator":
                return self.function(first, at, self.parameters_of_operator(here), end, outer, mine)
            if word == "(":
                if self.words[here - 1] in NO_PARAMETERS or here == at:
                    here = self.skip(here)
                    continue
                if self.is_pointer_to_function(here):
                    break
                return self.function(first, at, here, end, outer, mine)
            here = self.step(here)
        stop = self.end_of_statement(at, end)
        if mine is not None and not NO_MEMBER & set(self.words[first:here]):
            self.note_data(at, at, stop, mine, access)
        return stop + 1

    def parameters_of_operator(self, at):
        # the first pair of operator()() belongs to its name
        at += 3 if self.words[at + 1] == "(" else 1
        while self.words[at] != "(":
            at += 1
        return at

    def is_pointer_to_function(self, at):
        """Whether the ( holds a name with * or & in front, and parameters stand behind."""
        behind = self.skip(at)
        return re.fullmatch(r"(?:\w+::)*[*&]+(?:const)?\w*(?:\[\w*\])?", "".join(self.words[at + 1:behind - 1])) \
            is not None and behind < len(self.words) and self.words[behind] == "("

    def function(self, first, at, parameters, end, outer, mine):
        behind = self.skip(parameters)
        here, tail, body = behind, [], None
        while here < end:
            word = self.words[here]
            if word == ";":
                break
            if word == ":":  # initializers of a constructor
                here = self.behind_initializers(here + 1, end)
                continue
            if word == "{":
                body = here
                break
            if word == "requires":
                here = self.behind_constraint(here + 1, end)
                continue
            tail.append(word)
            here = self.step(here)
        if body is not None:
            self.local_classes(body, self.skip(body), outer)
            here = self.skip(body) - 1
        if mine is not None:
            self.note_function(self.words[first:parameters], tail, outer[-1], mine)
        return here + 1

    def behind_initializers(self, at, end):
        """Behind `a_(1), b_{2}`: where the body opens."""
        while at < end:
            while at < end and self.words[at] not in ("(", "{"):
                at = self.skip_angles(at) if self.is_template_list(at) else at + 1
            at = self.skip(at)
            if at < end and self.words[at] == ".":  # a pack
                at += 3
            if at >= end or self.words[at] != ",":
                return at
            at += 1
        return end

    @staticmethod
    def note_function(head, tail, class_name, mine):
        if "friend" in head or ("=" in tail and tail[-1] in ("default", "delete")):
            return
        before_arrow = tail[:tail.index("->")] if "->" in tail else tail
        plain = re.sub(r"<.*", "", class_name).rpartition("::")[2]
        makes_or_ends = "operator" not in head and (head[-1] == plain or "~" in head)
        assigns = head[-2:] == ["operator", "="]
        if not ("static" in head or "const" in before_arrow or makes_or_ends or assigns):
            mine["mutators"] += 1

    def note_data(self, at, declarators, stop, mine, access):
        """Each of the declarators between `declarators` and `stop`; the specifiers begin at `at`."""
        parts, begin, here = [], declarators, declarators
        while here <= stop:
            if here == stop or self.words[here] == ",":
                parts.append((begin, here))
                begin = here + 1
            here = here + 1 if here >= stop else self.step(here)
        shared = []
        for index, (begin, behind) in enumerate(parts):
            head = []
            here = begin
            while here < behind and self.words[here] not in ("=", "{", ":"):
                after = self.step(here)
                # The contents of brackets are irrelevant for the member, except those of a pointer
                # to a function.
                if self.words[here] == "(" and self.is_pointer_to_function(here):
                    head += self.words[here + 1:after - 1]
                    here = behind
                    break
                if after == here + 1:
                    head.append(self.words[here])
                here = after
            if not [w for w in head if re.match(r"[A-Za-z_]", w)]:
                continue
            if here < behind and self.words[here] == ":" and len(head) == 1 and index == 0:
                continue  # an unnamed bit-field stores nothing
            if index == 0:
                shared = [w for w in head[:-1] if w not in ("*", "&", "&&")]
                if declarators > at:
                    shared = self.words[at:at + 1]
            mine["members"] += 1
            if access == "public" and not is_const(head if index == 0 else shared + head):
                mine["public"] += 1


def is_const(head):
    """Whether what is declared by these words is const, or a reference."""
    if "&" in head or "&&" in head:
        return True
    stars = [at for at, word in enumerate(head) if word == "*"]
    return "const" in head[stars[-1] + 1:] if stars else "const" in head


def classes(root):
    """The classes of the rooms, the largest first. Those of one name in several files carry their file."""
    found = [c for name, text in tree.code(root) if name.startswith(ROOMS) for c in Reader(name, text).read()]
    found = [c._replace(name=re.sub(r"^cordma::", "", c.name)) for c in found]
    times = collections.Counter(c.name for c in found)
    found = [c._replace(name=f"{c.name} ({c.file})") if times[c.name] > 1 else c for c in found]
    return sorted(found, key=lambda c: (-c.members, -c.public, c.name))


def excess(c):
    """(members, public members) that exceed their limits; 0 for those that do not."""
    if not c.mutators:
        return 0, 0
    return c.members if c.members > MEMBERS else 0, c.public if c.public > PUBLIC else 0


def check(root, known=None):
    known = KNOWN if known is None else known
    findings, seen = [], set()
    for c in classes(root):
        members, public = excess(c)
        place = f"{c.file}:{c.line}: {c.name}"
        was = known.get(c.name)
        seen.add(c.name)
        if was is None:
            if members:
                findings.append(f"{place} has {members} data members; {MEMBERS} are the limit: take a concept out of it")
            if public:
                findings.append(f"{place} has functions that change it, and {public} public data members that are not "
                                f"const; {PUBLIC} are the limit: make them private")
            continue
        if members > max(was[0], MEMBERS):
            findings.append(f"{place} has {members} data members; it had {was[0]}, and may only shrink")
        if public > max(was[1], PUBLIC):
            findings.append(f"{place} has {public} public data members that are not const; it had {was[1]}, and may "
                            "only shrink")
        if not members and not public:
            findings.append(f"{place} keeps the limits: remove its entry from KNOWN")
        elif c.members < was[0] or c.public < was[1]:
            findings.append(f"{place} is better than its entry {was}: lower the entry to {(c.members, public)}")
    return findings + [f"{name} is gone: remove its entry from KNOWN" for name in sorted(known.keys() - seen)]


def main(argv):
    root = tree.root_of([argv[0], *(a for a in argv[1:] if a != "--list")])
    if "--list" not in argv:
        return tree.report("members", check(root))
    print(f"{'members':>7} {'public':>6}  class")
    for c in classes(root):
        mark = " !" if any(excess(c)) else ""
        print(f"{c.members:7} {c.public:6}  {c.name}{mark}  {c.file}:{c.line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
