"""How runs of cordma-perf were configured: what tells lines and pictures apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

# What runs differ in, with what counts where a file does not say, and how it reads.
DEFAULTS: dict[str, object] = {
    "think_us": 0, "think_spread": "constant", "arrival": "closed", "load_hz": None, "flows": 1,
    "outstanding": 1, "messages": 1, "depth": None, "inline": None, "stall_ms": 0, "check": False}
WORDS: dict[str, Callable[[object], str]] = {
    "think_us": lambda value: f"pause {pause(value)}",
    "think_spread": lambda value: f"{value} pauses",
    "arrival": lambda value: "closed loop" if value == "closed" else f"{value} arrivals",
    "load_hz": lambda value: f"{value:g} a second" if value else "no load set",
    "flows": lambda value: f"{value} flow" + ("s" if value != 1 else ""),
    "outstanding": lambda value: f"{value} outstanding",
    "messages": lambda value: f"{value} a request",
    "depth": lambda value: f"depth {value}",
    "inline": lambda value: f"inline {value}",
    "stall_ms": lambda value: f"stalls of {value:g} ms" if value else "no stalls",
    "check": lambda value: "checked" if value else "unchecked"}


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


def varying(runs: list[dict], keys: Iterable[str] = tuple(DEFAULTS)) -> list[str]:
    """Those in which the runs differ."""
    return [key for key in keys if len({value_of(run, key) for run in runs}) > 1]


def words_of(run: dict, keys: Iterable[str]) -> list[str]:
    """For people."""
    return [WORDS[key](value_of(run, key)) for key in keys]


def file_words_of(run: dict, keys: Iterable[str]) -> list[str]:
    """For the name of a file: think-100us, load-1000, stall-ms-5; nothing for a pause or load that
    is not there."""
    words = []
    for key in keys:
        value = value_of(run, key)
        if key == "think_us":
            words += [f"think-{value:g}us"] if value else []
        elif key == "load_hz":
            words += [f"load-{value:g}"] if value else []
        else:
            words.append(re.sub(r"[^\w.]+|_", "-", f"{key}-{value}".lower()))
    return words
