"""The functions that a message passes: which part of a profile is the way out and which the way back, and which
functions of it count."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .callgrind import Node, Path, function_of, qualified

TURN = "functions::counted_turn"
IDLE = "functions::counted_idle_turn"
PROGRAM = "functions::"      # the two coroutines that send and receive
LIBRARY = "cordma::"
PUBLIC_CALL = re.compile(r"cordma::Endpoint::(tag_)?send")
LAST = 1 << 61               # a line behind those of all calls
# instructions; a function with fewer, and without counted calls, is omitted
LEAST = 10
OFTEN = 0.5                  # calls per message; a function with fewer calls is rare

# Calls of co_await on an operation and its coroutine before it suspends.
BEFORE_SUSPENDING = ("await_transform", "operator co_await", "await_ready")

# The function that ends the way out, by transport.
WRITES = {
    "shm": re.compile(r"cordma::transport::shm::ring_writer::(put|write|release)"),
    "tcp": re.compile(r"(__libc_|__)?(send|sendto|sendmsg|write|writev)(@@?\w.*)?"),
    "verbs": re.compile(r"ibv_post_send|ibv_wr_complete|stand_in::.*\bpost_send"),
}
GOALS = {"shm": 12, "tcp": 16, "verbs": 14}
GOAL_BACK = 14


class NotFound(ValueError):
    """The profile lacks what a way begins or ends with; the message names it."""


@dataclass
class Step:
    """A function of a way."""

    function: str            # with its parameters
    depth: int               # number of counted functions around its first call
    calls: float             # per message
    own: float               # instructions of the function itself, per call

    @property
    def name(self) -> str:
        return qualified(self.function).removeprefix(LIBRARY)

    @property
    def counts(self) -> bool:
        """False for what is shown as the end of a way and is not the library's: a system call, a device."""
        return self.function.startswith(LIBRARY)


@dataclass
class LeftOut:
    function: str
    calls: float
    own: float
    why: str


@dataclass
class Way:
    """One of the two, with what counts in the order of the calls."""

    steps: list[Step] = field(default_factory=list)
    rare: list[Step] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    deepest: int = 0         # largest number of nested counted functions
    deferred: bool = False   # the write happens in a later pass, not in the public call

    @property
    def functions(self) -> int:
        return sum(step.counts for step in self.steps)

    @property
    def calls(self) -> float:
        return sum(step.calls for step in self.steps if step.counts)


Tree = dict[Path, Node]


def below(nodes: dict[Path, Node], marker: str) -> Tree:
    """What `marker` called, with paths that begin there."""
    found: Tree = {}
    for path, node in nodes.items():
        at = last_place(path, lambda function: qualified(function) == marker)
        if at is not None and at + 1 < len(path):
            add(found, path[at + 1:], node)
    return found


def last_place(path: Path, fits: Callable[[str], bool]) -> int | None:
    """Of the last function on a path that fits."""
    return next((k for k in range(len(path) - 1, -1, -1) if fits(function_of(path[k]))), None)


def of_functions(path: Path) -> Path:
    """With the instances of a template as one."""
    return tuple(function_of(name) for name in path)


def add(tree: Tree, path: Path, node: Node) -> None:
    into = tree.setdefault(path, Node())
    into.own += node.own
    into.calls += node.calls
    into.line = min(into.line, node.line)


def split(turn: Tree) -> tuple[Tree, Tree]:
    """What the program's coroutines called, with paths that begin with the coroutine and go on with names as the
    profile has them; and all else."""
    program: Tree = {}
    rest: Tree = {}
    for path, node in turn.items():
        at = last_place(path, lambda function: function.startswith(PROGRAM))
        if at is None:
            add(rest, of_functions(path), node)
        elif at + 1 < len(path):
            add(program, (function_of(path[at]), *path[at + 1:]), node)
    return program, rest


def calls_of(program: Tree, names: tuple[str, ...] | re.Pattern[str]) -> set[tuple[str, int]]:
    """(coroutine, line) of each call that a coroutine makes of such a function."""
    def fits(name: str) -> bool:
        if isinstance(names, tuple):
            return last_name(function_of(name)) in names
        return names.fullmatch(qualified(function_of(name))) is not None
    return {(path[0], node.line) for path, node in program.items() if len(path) == 2 and fits(path[1])}


def without_coroutine(program: Tree, chosen: set[tuple[str, str]]) -> Tree:
    """The chosen calls, each (coroutine, function), and all below them, with paths that begin with the call."""
    tree: Tree = {}
    for path, node in program.items():
        if path[:2] in chosen:
            add(tree, of_functions(path[1:]), node)
    return tree


def behind_all(tree: Tree) -> Tree:
    """The tree, whose calls come after all others."""
    for path, node in tree.items():
        if len(path) == 1:
            node.line = LAST
    return tree


def way_out(program: Tree, rest: Tree, writes: re.Pattern[str]) -> tuple[Tree, bool]:
    """The public call, what co_await asks of it before it suspends, and the call in which the write happens, each
    with all below it. True where none writes: then the pass does, and what leads to it there is the rest."""
    def is_write(path: Path) -> bool:
        return writes.fullmatch(qualified(function_of(path[-1]))) is not None

    lines = calls_of(program, PUBLIC_CALL)
    if not lines:
        raise NotFound("the program's coroutines call no Endpoint::send or tag_send in the profile")
    opening = {path for path, node in program.items() if len(path) == 2 and (path[0], node.line) in lines and
               last_name(function_of(path[1])) in (*BEFORE_SUSPENDING, "send", "tag_send")}
    writing = {path[:2] for path in program if is_write(path)}
    tree = without_coroutine(program, opening | writing)
    if writing:
        return tree, False
    ends = [path for path in rest if is_write(path)]
    if not ends:
        raise NotFound(f"nothing in the profile writes: no function is like {writes.pattern}")
    later: Tree = {}
    for path in {end[:k] for end in ends for k in range(1, len(end) + 1)}:
        add(later, path, rest.get(path, Node()))
    return tree | behind_all(later), True


def way_back(program: Tree, rest: Tree, idle: Tree) -> Tree:
    """From the pass to the resumption: what an idle pass does not do too, what leads there, and what gives the
    coroutine its message."""
    idle_functions = {of_functions(path) for path in idle}
    new = rest.keys() - idle_functions
    leading = {path[:k] for path in new for k in range(1, len(path) + 1)}
    tree = {path: node for path, node in rest.items() if path in leading}
    suspended = calls_of(program, ("await_suspend",))
    giving = {path for path, node in program.items() if len(path) == 2 and (path[0], node.line) in suspended and
              last_name(function_of(path[1])) == "await_resume"}
    tree.update(behind_all(without_coroutine(program, giving)))
    if not tree:
        raise NotFound("the profile has no pass in which a message came")
    return tree


def scope_of(function: str) -> str:
    return qualified(function).rpartition("::")[0]


def last_name(function: str) -> str:
    return re.sub(r"<>$", "", qualified(function).rpartition("::")[2])


def is_maker(function: str) -> bool:
    """Whether it constructs, destroys or assigns."""
    scope, name = re.sub(r"<>$", "", scope_of(function)), last_name(function)
    return name in (scope.rpartition("::")[2], "operator=") or name.startswith("~")


def counted(tree: Tree, always: re.Pattern[str], least: int) -> dict[str, str]:
    """{function: why it is left out}, empty for what counts."""
    own: dict[str, int] = {}
    calls: dict[str, int] = {}
    for path, node in tree.items():
        own[path[-1]] = own.get(path[-1], 0) + node.own
        calls[path[-1]] = calls.get(path[-1], 0) + node.calls
    why: dict[str, str] = {}
    for name in own:
        if always.fullmatch(qualified(name)):
            why[name] = ""
        elif not name.startswith(LIBRARY):
            why[name] = "not of cordma"
        elif own[name] <= least * max(calls[name], 1):
            why[name] = f"at most {least} instructions, and calls nothing that counts"
        elif is_maker(name):
            why[name] = "constructs, destroys or assigns, and calls nothing that counts"
        else:
            why[name] = ""
    base = {name for name, reason in why.items() if not reason}
    for path in tree:
        if path[-1] in base:
            why.update({name: "" for name in path if name.startswith(LIBRARY)})
    return why


def in_order(tree: Tree) -> list[Path]:
    """Callers before what they call, and that in the order of the lines of the calls."""
    def key(path: Path) -> list[tuple[int, str]]:
        return [(tree[path[:k]].line if path[:k] in tree else 0, path[k - 1]) for k in range(1, len(path) + 1)]
    return sorted(tree, key=key)


def way(tree: Tree, messages: int, always: re.Pattern[str], least: int) -> Way:
    why = counted(tree, always, least)
    calls: dict[str, int] = {}
    own: dict[str, int] = {}
    first: dict[str, Path] = {}
    for path in in_order(tree):
        name = path[-1]
        first.setdefault(name, path)
        calls[name] = calls.get(name, 0) + tree[path].calls
        own[name] = own.get(name, 0) + tree[path].own
    found = Way()
    for name, path in first.items():
        a_message, a_call = calls[name] / messages, own[name] / max(calls[name], 1)
        if why[name]:
            found.left_out.append(LeftOut(name, a_message, a_call, why[name]))
            continue
        step = Step(name, sum(not why.get(around, "") for around in path[:-1]), a_message, a_call)
        (found.steps if a_message >= OFTEN else found.rare).append(step)
    often = {step.function for step in found.steps if step.counts}
    found.deepest = max((len(often.intersection(path)) for path in tree if path[-1] in often), default=0)
    return found


def ways(nodes: dict[Path, Node], transport: str, messages: int, least: int = LEAST) -> tuple[Way, Way]:
    """(out, back) of a message over that transport. Raises NotFound."""
    turn = below(nodes, TURN)
    if not turn:
        raise NotFound(f"the profile has no calls of {TURN}: was it collected there?")
    writes = WRITES[transport]
    program, rest = split(turn)
    tree, deferred = way_out(program, rest, writes)
    ends = re.compile(f"{PUBLIC_CALL.pattern}|{writes.pattern}")
    out = way({path: node for path, node in tree.items() if not passes_write(path, writes)}, messages, ends, least)
    out.deferred = deferred
    turns = re.compile(r"cordma::reactor::turn")
    back = way(way_back(program, rest, below(nodes, IDLE)), messages, turns, least)
    return out, back


def passes_write(path: Path, writes: re.Pattern[str]) -> bool:
    """Whether a function outside of cordma that writes is around this one: a device, or a system call."""
    return any(writes.fullmatch(qualified(name)) and not name.startswith(LIBRARY) for name in path[:-1])


def as_json(found: Way, goal: int) -> dict[str, object]:
    def rows(steps: list[Step]) -> list[dict[str, object]]:
        return [{"function": s.function, "depth": s.depth, "calls": round(s.calls, 3), "own": round(s.own, 1)}
                for s in steps]
    return {"functions": found.functions, "goal": goal, "reached": found.functions <= goal,
            "calls": round(found.calls, 3), "deepest": found.deepest, "deferred": found.deferred,
            "chain": rows(found.steps), "rare": rows(found.rare),
            "left_out": [{"function": o.function, "calls": round(o.calls, 3), "own": round(o.own, 1), "why": o.why}
                         for o in found.left_out]}


def as_text(title: str, found: Way, goal: int, everything: bool) -> str:
    verdict = "reached" if found.functions <= goal else "not reached"
    lines = [f"{title}: {found.functions} functions (goal {goal}: {verdict}), {found.calls:.1f} calls a message, "
             f"{found.deepest} within each other"]
    if found.deferred:
        lines.append("  written by the pass, not by the public call")
    lines += [f"  {s.calls:6.2f} calls {s.own:6.1f} own  {'  ' * s.depth}{s.name}" for s in found.steps]
    if found.rare:
        lines.append("  less than every second message, not counted:")
        lines += [f"  {s.calls:6.2f} calls {s.own:6.1f} own  {s.name}" for s in found.rare]
    if everything:
        lines.append("  left out:")
        lines += [f"  {o.calls:6.2f} calls {o.own:6.1f} own  {o.function}: {o.why}" for o in found.left_out]
    elif found.left_out:
        lines.append(f"  left out: {len(found.left_out)} functions; --all lists them")
    return "\n".join(lines)
