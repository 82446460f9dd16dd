#!/usr/bin/env python3
"""Every public call of the classes of net/ has a row in the table of the lifecycle test, which walks
each in every state. Usage: lifecycle.py [ROOT]

A call that is `const noexcept` only looks, and is legal in every state: it needs no row. Nor do the
few named in FOR_THE_LIBRARY."""
import pathlib
import re
import sys

TABLE = "tests/conformance/lifecycle_test.cpp"
CLASSES = {"Context": "context", "Worker": "worker", "Listener": "listener",
           "ConnectionRequest": "listener", "Endpoint": "endpoint", "MemoryRegion": "memory",
           "MemoryWindow": "memory_window", "BufferPool": "buffer_pool", "DatagramEndpoint": "datagram",
           "SharedReceive": "shared_receive", "SyncEvent": "sync_event", "Messages": "messages",
           "Requests": "requests", "Stream": "stream"}
FOR_THE_LIBRARY = {"Worker.core", "Context.core", "Endpoint.core", "Messages.core",
                   "Requests.core"}
ROW = re.compile(r'\bcell\("(\w+\.\w+)"')


def without(text, pattern):
    return re.sub(pattern, " ", text, flags=re.S)


def body_of(text, name):
    """Between the braces of `class name`, without comments, nested classes and function bodies."""
    text = without(text, r"//[^\n]*")
    start = re.search(rf"\bclass\s+{name}\b[^;{{]*{{", text)
    if start is None:
        return None
    out, depth = [], 1
    for c in text[start.end():]:
        depth += (c == "{") - (c == "}")
        if depth == 0:
            break
        if depth == 1:
            out.append(";" if c == "}" else c)
    return "".join(out)


def calls(text, name):
    body = body_of(text, name)
    if body is None:
        return None
    public = re.split(r"\bprivate:", body)[0]
    public = public.replace("public:", ";")
    found = set()
    for statement in public.split(";"):
        statement = without(statement, r"\[\[\w+\]\]|template\s*<[^>]*>|static_cast<[^>]*>")
        match = re.search(r"(~?\w+|operator[^(]*)\s*\(", statement)
        if match is None or match[1].startswith(("~", "operator")) or match[1] == name:
            continue
        if "operator" in statement[:match.start()] or statement.lstrip().startswith("explicit"):
            continue
        tail = statement[statement.rfind(")"):]
        if "const" in tail and "noexcept" in tail:
            continue
        found.add(f"{name}.{match[1]}")
    return found


def findings(table, headers):
    rows = set(ROW.findall(table))
    every = set()
    for name, text in headers.items():
        there = calls(text, name)
        if not there:
            yield f"{name}: its header shows no calls: has it moved?"
            continue
        every |= there
    for call in sorted(every - rows - FOR_THE_LIBRARY):
        yield f"{TABLE}: no row for {call}"
    for row in sorted(rows - every):
        yield f"{TABLE}: a row for {row}, which there is not"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    headers = {name: (root / f"net/{file}.hpp").read_text() for name, file in CLASSES.items()}
    found = list(findings((root / TABLE).read_text(), headers))
    for line in found:
        print(line)
    print("lifecycle table: " + ("incomplete" if found else "complete"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
