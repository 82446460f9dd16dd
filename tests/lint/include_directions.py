#!/usr/bin/env python3
"""Nothing includes upward, and no header twice. Usage: include_directions.py [ROOT]

RULES is the layering of the project: for each folder, which of the project's headers its files may
include. The first rule whose folder fits decides. ROOMS divides what RULES takes
for one layer; who includes whom among the rooms is printed.
"""
import collections
import posixpath
import re
import sys

import tree

PUBLIC = r"cordma\.hpp|(runtime|net|gpu)/[^/]+\.hpp|net/transport/sim/[^/]+\.hpp"
# Engines only decide: they use types of the runtime, but no task, reactor or socket.
ENGINE_RUNTIME = r"runtime/(check|clock|errc|result)\.hpp"

# The rooms of each layer or program that has some, and the rooms that each may include. No cycle is
# allowed.
ROOMS = {
    "net": {
        "memory": set(),
        "datapath": {"memory"},
        "extras": {"memory", "datapath"},
        "messaging": {"memory", "datapath"},
        "connecting": {"memory", "datapath", "messaging"},
        "rpc": {"datapath", "messaging", "connecting"},
        "streams": {"memory", "datapath"},
    },
    "apps/cp": {
        "files": set(),
        "tree": {"files"},
        "target": {"files", "tree"},
        "protocol": {"files", "tree"},
        "transfer": {"files", "tree", "target", "protocol"},
        "cli": {"transfer", "protocol", "tree", "target", "files"},
    },
    "apps/kv": {
        "files": set(),
        "resp": set(),
        "store": set(),
        "keyspace": {"store"},
        "journal": {"files", "store", "keyspace"},
        "native": {"resp", "store", "keyspace"},
        "command": {"files", "resp", "store", "keyspace"},
        "server": {"files", "resp", "store", "keyspace", "journal", "native", "command"},
        "cli": {"resp", "store", "native"},
    },
}
# Folders of net/ that RULES orders.
LAYERS_OF_NET = ("engine", "protocol", "transport")
# The room of each public header of net/, and of the source with the same name.
PUBLIC_OF = {
    "memory": "buffer_pool context device_attributes device_list memory settings",
    "datapath": "address datagram device_event endpoint memory_window operations user_data",
    "extras": "receive_credits remote_sync_event shared_receive sync_event typed_endpoint",
    "messaging": "messages",
    "connecting": "connect endpoint_pool exchange listener worker",
    "rpc": "request_session requests",
    "streams": "asio_stream stream",
}
ANY_ROOM = "|".join(ROOMS["net"])
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
    ("apps/support/", PUBLIC + r"|apps/support/.*"),
    ("apps/", PUBLIC + r"|apps/.*"),
    ("bench/", PUBLIC + r"|bench/.*"),
    ("tests/", r".*"),
]
# Headers of other projects that only one place may use, and a second place, which compares cordma
# with the bare library.
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
    """(place, room) of a file of a place that ROOMS divides, else None; the room is empty at its top. A file at the top
    of net/ is in the room that PUBLIC_OF gives it."""
    for place in ROOMS:
        if not name.startswith(place + "/"):
            continue
        room, slash, _ = name.removeprefix(place + "/").partition("/")
        if slash:
            return None if place == "net" and room in LAYERS_OF_NET else (place, room)
        if name == "net/cordma.hpp" or not name.endswith(tree.CODE):
            return None
        stem = room.rpartition(".")[0]
        return place, next((r for r, stems in PUBLIC_OF.items() if place == "net" and stem in stems.split()), "")
    return None


def edges(root):
    """(file and line, room, room that it includes) of every include from a room into another."""
    for name, text in tree.code(root):
        here = room_of(name)
        for match in INCLUDE.finditer(text) if here else ():
            there = room_of(target_of(name, match[1], match[2]) or "")
            if there and there != here:
                yield f"{name}:{tree.line_of(text, match.start(1))}", here, there


def check_rooms(root):
    """What stands in no room, and what includes a room that its own may not include."""
    findings = [f"ROOMS: the rooms of {place} include each other in a circle: {', '.join(circle)}"
                for place, rooms in ROOMS.items() if (circle := circle_of(rooms))]
    homeless = set()
    for name, _ in tree.code(root):
        place, room = room_of(name) or ("", "")
        if place and room not in ROOMS[place]:
            homeless.add((place, room))
            table = "PUBLIC_OF" if place == "net" and not room else "ROOMS"
            findings.append(f"{name}: {place} has no room {room or 'at its top'} for it; give it one in {table}")
    for where, here, there in edges(root):
        if here in homeless or there in homeless:
            continue
        if there[0] == "net" and here[0] != "net":
            continue  # RULES defines the library headers that programs may include
        if there[0] != here[0] or there[1] not in ROOMS[here[0]][here[1]]:
            findings.append(f"{where}: {'/'.join(here)} may not include {'/'.join(there)}")
    return findings


def circle_of(rooms):
    """The rooms that remain when those are taken away, again and again, that include none of the rest."""
    left = dict(rooms)
    while free := [room for room, below in left.items() if not below & left.keys()]:
        for room in free:
            del left[room]
    return sorted(left)


def graph(root):
    """A line for each room: the rooms that it includes, with the number of includes."""
    count = collections.Counter((here, there[1]) for _, here, there in edges(root))
    lines = []
    for place, rooms in ROOMS.items():
        for room in rooms:
            below = [f"{to} ({count[(place, room), to]})" for to in rooms if count[(place, room), to]]
            lines.append(f"{place}/{room} -> {', '.join(below) or 'nothing'}")
    return lines


def exists(root, target):
    return (root / ("net/cordma.hpp" if target == "cordma.hpp" else target)).is_file()


def foreign(where, name, header):
    return [f"{where}: only {owner} may include {header}" for pattern, owner, beside in FOREIGN
            if re.fullmatch(pattern, header) and not name.startswith((owner, beside, "tests/"))]


if __name__ == "__main__":
    ROOT = tree.root_of(sys.argv)
    print("\n".join(["the rooms include:"] + graph(ROOT)))
    sys.exit(tree.report("include directions", check(ROOT) + check_rooms(ROOT)))
