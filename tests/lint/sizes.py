#!/usr/bin/env python3
"""No file over 700 lines, no function over 70. Usage: sizes.py [ROOT]"""
import re
import sys

import tree

FILE_LINES = 700
FUNCTION_LINES = 70
SCOPE = re.compile(r'\b(namespace|class|struct|union|enum|extern)\b(?![^{]*\)\s*[\w\s]*$)')


def functions(text):
    """(first line, number of lines, heading) of every function body at namespace or class scope.

    A brace block is a function when what leads up to it has a parameter list and everything around it
    is a namespace or a class. Lambdas and local blocks count as lines of their function.
    """
    s = tree.blank(re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m[0]), text,
                          flags=re.M))
    heading_start, stack = 0, []
    for match in re.finditer(r"[;{}]", s):
        at = match.start()
        inside_function = any(kind == "function" for kind, _, _ in stack)
        if match[0] == "{":
            heading = s[heading_start:at]
            in_parentheses = heading.count("(") > heading.count(")")
            if inside_function or in_parentheses:
                kind = "block"
            elif SCOPE.search(heading):
                kind = "scope"
            elif "(" in heading:
                kind = "function"
            else:
                kind = "block"
            stack.append((kind, at, heading))
            if kind == "scope" or not (in_parentheses or in_initializer(s, at)):
                heading_start = at + 1
        elif match[0] == "}" and stack:
            kind, opened, heading = stack.pop()
            if re.match(r"\s*[,{)]", s[at + 1:]) and heading_start < opened:
                continue  # a member initializer or a default argument: the heading continues
            heading_start = at + 1
            if kind == "function":
                first = tree.line_of(s, opened)
                yield first, tree.line_of(s, at) - first + 1, " ".join(heading.split())[:80]
        elif match[0] == ";" and not inside_function:
            heading_start = at + 1


def in_initializer(s, opening):
    """Whether the brace at `opening` holds a member initializer: its match is followed by , or {."""
    depth = 0
    for match in re.finditer(r"[{}]", s[opening:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return re.match(r"\s*[,{]", s[opening + match.start() + 1:]) is not None
    return False


def check(root):
    findings = []
    for name, text in tree.code(root):
        lines = text.count("\n")
        if lines > FILE_LINES:
            findings.append(f"{name}: {lines} lines; a file has {FILE_LINES} at most")
        for first, length, heading in functions(text):
            if length > FUNCTION_LINES:
                findings.append(f"{name}:{first}: {length} lines; a function has {FUNCTION_LINES} at "
                                f"most: {heading}")
    return findings


if __name__ == "__main__":
    sys.exit(tree.report("sizes", check(tree.root_of(sys.argv))))
