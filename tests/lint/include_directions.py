#!/usr/bin/env python3
"""Nothing includes upward, and no header twice. Usage: include_directions.py [ROOT]

RULES is the layering of the project: for each folder, which of the project's headers its files may
include. The first rule whose folder fits decides.
"""
import posixpath
import re
import sys

import tree

PUBLIC = r"cordma\.hpp|(runtime|net|gpu)/[^/]+\.hpp|net/transport/sim/[^/]+\.hpp"
# Engines decide and do nothing else: of the runtime they know types, no task, reactor or socket.
ENGINE_RUNTIME = r"runtime/(check|clock|errc|result)\.hpp"

RULES = [
    ("runtime/", r"runtime/.*"),
    ("net/transport/{one}/", r"runtime/.*|net/transport/[^/]+\.hpp|net/transport/{one}/.*"),
    ("net/transport/", r"runtime/.*|net/transport/[^/]+\.hpp"),
    ("net/engine/", ENGINE_RUNTIME + r"|net/engine/.*"),
    ("net/protocol/", r"runtime/.*|net/transport/[^/]+\.hpp|net/engine/.*|net/protocol/.*"),
    # What stands behind the objects of net/: one layer with them.
    ("net/{room}/", r"runtime/.*|net/([^/]+|({rooms}|engine|protocol)/.*|transport/[^/]+)"),
    ("net/{none}/", None),
    ("net/", r"runtime/.*|net/([^/]+|({rooms}|engine|protocol)/.*|transport/[^/]+|transport/sim/.*)"),
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


def exists(root, target):
    return (root / ("net/cordma.hpp" if target == "cordma.hpp" else target)).is_file()


def foreign(where, name, header):
    return [f"{where}: only {owner} may include {header}" for pattern, owner, beside in FOREIGN
            if re.fullmatch(pattern, header) and not name.startswith((owner, beside, "tests/"))]


if __name__ == "__main__":
    sys.exit(tree.report("include directions", check(tree.root_of(sys.argv))))
