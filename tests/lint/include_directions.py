#!/usr/bin/env python3
"""Nothing includes upward, and no header twice. Usage: include_directions.py [ROOT]

RULES is the layering of the project: for each folder, which of the project's headers its files may
include. The first rule whose folder fits decides. ROOMS orders what RULES takes for one layer. The
rooms of net/ and who includes whom are printed.
"""
import collections
import posixpath
import re
import sys

import tree

PUBLIC = r"cordma\.hpp|(runtime|net|gpu)/[^/]+\.hpp|net/transport/sim/[^/]+\.hpp"
# Engines decide and do nothing else: of the runtime they know types, no task, reactor or socket.
ENGINE_RUNTIME = r"runtime/(check|clock|errc|result)\.hpp"

# The rooms of net/, lowest first: which others each may include. One that stands above another is never included there.
ROOMS = {
    "memory": "",
    "datapath": "memory",
    "extras": "memory datapath",
    "messaging": "memory datapath",
    "connecting": "memory datapath messaging",
    "rpc": "datapath messaging connecting",
    "streams": "memory datapath",
}
# The room of each public header of net/, and of the source of that name.
PUBLIC_OF = {
    "memory": "buffer_pool context device_list memory settings",
    "datapath": "address datagram device_event endpoint memory_window operations user_data",
    "extras": "receive_credits remote_sync_event shared_receive sync_event typed_endpoint",
    "messaging": "messages",
    "connecting": "connect endpoint_pool exchange listener worker",
    "rpc": "request_session requests",
    "streams": "asio_stream stream",
}
ANY_ROOM = "|".join(ROOMS)
NET = rf"runtime/.*|net/([^/]+|({ANY_ROOM}|engine|protocol)/.*|transport/[^/]+)"

RULES = [
    ("runtime/", r"runtime/.*"),
    ("net/transport/{one}/", r"runtime/.*|net/transport/[^/]+\.hpp|net/transport/{one}/.*"),
    ("net/transport/", r"runtime/.*|net/transport/[^/]+\.hpp"),
    ("net/engine/", ENGINE_RUNTIME + r"|net/engine/.*"),
    ("net/protocol/", r"runtime/.*|net/transport/[^/]+\.hpp|net/engine/.*|net/protocol/.*"),
    # One layer; ROOMS divides it.
    (f"net/({ANY_ROOM})/", NET),
    ("net/{none}/", None),
    ("net/", NET + r"|net/transport/sim/.*"),
    ("gpu/", r"runtime/[^/]+|net/[^/]+\.hpp|gpu/.*"),
    ("apps/", PUBLIC + r"|apps/.*"),
    ("bench/", PUBLIC + r"|bench/.*"),
    ("tests/", r".*"),
]
# Headers of other projects that only one place may know, and who sets that place beside the bare thing.
FOREIGN = [
    (r"(infiniband|rdma)/.*", "net/transport/verbs/", "bench/verbs_"),
    (r"cuda.*|nvml\.h|cufile\.h", "gpu/", "tests/"),
    (r"liburing\.h|linux/io_uring\.h", "apps/", "tests/"),
]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def rule_for(name):
    """(folder, pattern) of the layer of the file `name`; (None, None) outside all layers."""
    for folder, allowed in RULES:
        pattern = folder.replace("{one}", r"(?P<one>[^/]+)").replace("{none}", r"[^/]+")
        match = re.match(pattern, name)
        if match:
            one = match.groupdict().get("one", "")
            return match[0], allowed.replace("{one}", re.escape(one)) if allowed else None
    return None, None


def target_of(name, bracket, included):
    """The project's file that is included, relative to the root, or None for a foreign header."""
    if included.startswith("cordma/"):
        return included.removeprefix("cordma/")
    if bracket == '"' and not name.startswith("tests/"):
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), included))
    return None


def check(root):
    findings = []
    for name, text in tree.code(root):
        folder, allowed = rule_for(name)
        if folder and allowed is None:
            findings.append(f"{name}: no layer has the folder {folder}; give it a line in RULES")
            continue
        if name.endswith(".hpp") and not re.search(r"^#pragma once$", text, re.M):
            findings.append(f"{name}: a header needs #pragma once")
        for match in INCLUDE.finditer(text):
            where = f"{name}:{tree.line_of(text, match.start(1))}"
            target = target_of(name, match[1], match[2])
            if target is None:
                findings += foreign(where, name, match[2])
            elif folder is None:
                findings.append(f"{where}: code outside all layers")
            elif not re.fullmatch(allowed, target):
                findings.append(f"{where}: {folder} may not include {target}")
            elif not exists(root, target) and f"__has_include(<{match[2]}>)" not in text:
                findings.append(f"{where}: there is no {target}")
    return findings


def room_of(name):
    """The room of a file of net/, by its folder or, at the top of net/, by its stem; else None."""
    match = re.fullmatch(r"net/(?:(\w+)/)?(\w+)\.[hc]pp", name)
    if not match:
        return None
    if match[1]:
        return match[1] if match[1] in ROOMS else None
    return next((room for room, stems in PUBLIC_OF.items() if match[2] in stems.split()), None)


def project_includes(root):
    """(name, line, target) of every include of a file of the project."""
    for name, text in tree.code(root):
        for match in INCLUDE.finditer(text):
            target = target_of(name, match[1], match[2])
            if target is not None:
                yield name, tree.line_of(text, match.start(1)), target


def check_rooms(root):
    """No room includes one above it, and every file of net/ itself has a room."""
    order = list(ROOMS)
    findings = [f"ROOMS: {room} stands below {above}, which it includes"
                for room, those in ROOMS.items() for above in those.split()
                if order.index(above) >= order.index(room)]
    findings += [f"{name}: no room has it; give it one in PUBLIC_OF" for name, _ in tree.code(root)
                 if re.fullmatch(r"net/\w+\.[hc]pp", name) and name != "net/cordma.hpp" and not room_of(name)]
    for name, line, target in project_includes(root):
        here, there = room_of(name), room_of(target)
        if here and there and there != here and there not in ROOMS[here].split():
            findings.append(f"{name}:{line}: the room {here} may not include {there} ({target})")
    return findings


def graph(root):
    """A line for each room of net/: the rooms that it includes, with the number of includes."""
    edges = collections.Counter()
    for name, _, target in project_includes(root):
        here, there = room_of(name), room_of(target)
        if here and there and here != there:
            edges[here, there] += 1
    return [f"{room:10} -> " + ", ".join(f"{to} ({edges[room, to]})" for to in ROOMS if edges[room, to])
            for room in ROOMS]


def exists(root, target):
    return (root / ("net/cordma.hpp" if target == "cordma.hpp" else target)).is_file()


def foreign(where, name, header):
    return [f"{where}: only {owner} may include {header}" for pattern, owner, beside in FOREIGN
            if re.fullmatch(pattern, header) and not name.startswith((owner, beside, "tests/"))]


if __name__ == "__main__":
    ROOT = tree.root_of(sys.argv)
    print("\n".join(["the rooms of net/ include:"] + graph(ROOT)))
    sys.exit(tree.report("include directions", check(ROOT) + check_rooms(ROOT)))
