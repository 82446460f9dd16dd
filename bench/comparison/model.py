"""What a comparison is made of: series that run a program, rows that set series side by side."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """One program run with one set of arguments, and the figure read from what it prints.

    Two rows that name an equal series share its runs; two series that differ only in the figure
    share the program's run within one repetition.
    """

    program: str  # "cordma-perf", a peer's or "bench-..."
    arguments: tuple[str, ...]
    # Dotted path in the JSON. An object with client and server is summed; of several paths
    # separated by "|", the largest counts.
    figure: str
    label: str  # name in the table
    iterations: int | None = None  # None: the program has no such option
    warmup: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    beside: bool = False  # of the other build: --beside
    curve: str = "dropped"  # or "drawn": the percentile curve stays in the comparison's JSON


@dataclass(frozen=True)
class Goal:
    """`sign` is "<=" or ">=". `on` says of what: the ratio cordma / peer or cordma's own value."""

    sign: str
    limit: float
    on: str = "ratio"

    def reached(self, value: float) -> bool:
        return value <= self.limit if self.sign == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}" + (" x" if self.on == "ratio" else "")


@dataclass(frozen=True)
class Row:
    """One line of the table. With several peers, the better one of them counts.

    `gap_us` is set where the goal is one for short gaps between messages: it is the pause that the
    program makes. The goal is judged where it is below what it costs to be woken, which cordma-perf
    measures.
    """

    name: str
    group: str  # the rows of one group run interleaved, one repetition of each series in turn
    unit: str
    ours: Series
    peers: tuple[Series, ...]
    goal: Goal | None = None
    better: str = "lower"  # "lower" for times, "higher" for bandwidths and rates
    gap_us: float | None = None
    part_of: str = "table"  # or "sweep": one point of a line over sizes, drawn as such


@dataclass
class Run:
    """One repetition of one series, as it went."""

    series: Series
    repetition: int
    command: str
    value: float | None = None
    error: str | None = None  # why there is no value
    missing: bool = False  # the program is not installed: nothing failed, nothing ran
    seconds: float = 0.0
    cache_line_us: float | None = None  # the placement probe right before this run
    raw: object = None  # output of the program


@dataclass
class Result:
    """A row with its figures."""

    row: Row
    ours: float | None
    theirs: float | None
    their_label: str
    ratio: float | None  # of the medians
    ratios: list[float]  # per repetition; the two runs of a pair are adjacent
    reached: bool | None  # None: no goal, no figure to judge, or `judged` is False
    judged: bool = True  # False: there is a goal, and its condition is not met here
    notes: list[str] = field(default_factory=list)
    ours_runs: list[float] = field(default_factory=list)
    their_runs: list[float] = field(default_factory=list)
