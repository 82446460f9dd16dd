"""How runs of cordma-perf were configured: what tells lines and pictures apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

# Properties in which runs differ: their defaults in files that omit them, and their wording. A
# property that decides others is first: with a load, many messages may be outstanding, and the
# depth is the limit of their number.
DEFAULTS: dict[str, object] = {
    "think_us": 0, "load_hz": None, "stall_ms": 0, "check": False, "flows": 1, "outstanding": 1,
    "messages": 1, "arrival": "closed", "think_spread": "constant", "depth": 128, "inline": 64}
WORDS: dict[str, Callable[[object], str]] = {
    "think_us": lambda value: f"pause {pause(value)}",
    "think_spread": lambda value: f"{value} pauses",
    "arrival": lambda value: "closed loop" if value == "closed" else f"{value} arrivals",
    "load_hz": lambda value: f"{value:g} a second",
    "flows": lambda value: f"{value} flow" + ("s" if value != 1 else ""),
    "outstanding": lambda value: f"{value} outstanding",
    "messages": lambda value: f"{value} a request",
    "depth": lambda value: f"depth {value}",
    "inline": lambda value: f"inline {value}",
    "stall_ms": lambda value: f"stalls of {value:g} ms" if value else "no stalls",
    "check": lambda value: "checked" if value else "unchecked"}

ALWAYS_SAID = ("think_us", "load_hz")  # whether or not they vary; if the file contains them


def pause(think_us: float) -> str:
    return f"{think_us / 1000:g} ms" if think_us >= 1000 else f"{think_us:g} us"


def value_of(run: dict, key: str) -> object:
    value = run.get(key)
    return DEFAULTS[key] if value is None else value


def values_of(run: dict, keys: Iterable[str]) -> tuple:
    return tuple(value_of(run, key) for key in keys)


def wait_of(run: dict) -> str:
    """The way of waiting that was measured. With an open loop the client polls whatever was asked
    for, and older files say so at the top: there it is the server's."""
    server = run.get("server")
    if value_of(run, "arrival") != "closed" and isinstance(server, dict) and server.get("wait"):
        return server["wait"]
    return run.get("wait") or ""


def telling_apart(runs: list[dict], known: Callable[[dict], object],
                  keys: Iterable[str] = tuple(DEFAULTS)) -> list[str]:
    """As few keys as tell any two runs apart that `known` does not, where any of `keys` does."""
    chosen: list[str] = []
    for key in keys:
        values: dict[tuple, set] = {}
        for run in runs:
            alike = (known(run), values_of(run, chosen))
            values.setdefault(alike, set()).add(value_of(run, key))
        if any(len(found) > 1 for found in values.values()):
            chosen.append(key)
    return chosen


def words_of(run: dict, keys: Iterable[str]) -> list[str]:
    """For people; nothing of a pause or a load that is not there."""
    return [WORDS[key](value_of(run, key)) for key in keys
            if key not in ALWAYS_SAID or value_of(run, key)]


def file_words_of(run: dict, keys: Iterable[str]) -> list[str]:
    """For the name of a file: think-100us, load-1000, stall-ms-5; nothing for what is as usual."""
    words = []
    for key in keys:
        value = value_of(run, key)
        if value == DEFAULTS[key]:
            continue
        name = {"think_us": "think-{:g}us", "load_hz": "load-{:g}"}.get(key, key + "-{}")
        words.append(re.sub(r"[^\w.]+|_", "-", name.format(value).lower()))
    return words
