"""Runs one repetition of one series and reads its figure.

Nothing here raises for what a program does: a program that is missing, fails, hangs or prints
nonsense gives a Run with a reason and no value.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from pathlib import Path

from . import peers
from .model import Run, Series
from .processes import Failure, brief, finish, start

PLACES = ("bench", "", "bin", "apps")  # places of programs in a build folder


def found_in(build: Path | None, name: str) -> str | None:
    for place in PLACES if build is not None else ():
        candidate = build / place / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


class Programs:
    """Where the programs are and on which CPUs they run."""

    def __init__(self, build: Path | None, cpus: tuple[int, int], divisor: int = 1,
                 beside: Path | None = None, ucx: Path | None = None):
        self.build = build
        self.beside = beside
        self.ucx = ucx  # installation of UCX; None: found by PATH
        self.cpus = cpus
        self.divisor = divisor  # --quick divides iterations by it

    def find(self, name: str) -> str | None:
        if self.ucx is not None and name.startswith("ucx_"):
            return shutil.which(name, path=str(self.ucx / "bin"))
        return found_in(self.build, name) or shutil.which(name)

    def run(self, series: Series, repetition: int, before: Run | None = None) -> Run:
        """Runs the program and reads the figure. With `before`, a run of the same command, only
        reads the figure from what that one printed."""
        run = Run(series, repetition, self.command(series))
        if before is not None:
            run.error, run.missing, run.raw = before.error, before.missing, before.raw
            if run.raw is not None:
                read_figure(run)
            return run
        path = (found_in(self.beside, series.program) if series.beside
                else self.find(series.program))
        if path is None:
            run.error = f"{series.program} not found"
            run.missing = True
            return run
        start_time = time.monotonic()
        try:
            arguments = [*series.arguments, *self._counts(series)]
            if series.program in peers.PEERS:
                run.raw = peers.run(series.program, path, arguments, self.cpus,
                                    dict(series.environment))
            else:
                run.raw = self._json_program(path, series.program, arguments)
            read_figure(run)
        except Failure as failure:
            run.error = str(failure)
        run.seconds = time.monotonic() - start_time
        return run

    def _counts(self, series: Series) -> list[str]:
        """The options for iterations and warm-up, as each program spells them."""
        if series.iterations is None:
            return []
        iterations = max(20, series.iterations // self.divisor)
        peer = peers.PEERS.get(series.program)
        if peer is not None:
            warmup = [peer.warmup, str(max(1, iterations // 10))] if peer.warmup else []
            return [peer.count, str(iterations), *warmup] if peer.count else []
        counts = ["--iterations", str(iterations)]
        if series.warmup is not None:
            counts += ["--warmup", str(max(1, series.warmup // self.divisor))]
        return counts

    def command(self, series: Series) -> str:
        """For people, and to tell whether two series run the same: no paths, CPUs or ports."""
        arguments = [*series.arguments, *self._counts(series)]
        words = [f"{key}={value}" for key, value in series.environment]
        if series.beside:
            words.insert(0, "before:")
        return shlex.join([*words, series.program, *arguments])

    def _json_program(self, path: str, name: str, arguments: list[str]) -> object:
        command = [path, *arguments]
        if name == "cordma-perf":
            command.append("--local")
        if name in ("cordma-perf", "bench-limits"):
            command += ["--cpu", f"{self.cpus[0]},{self.cpus[1]}"]
        command += ["--json", "-"]
        printed = finish(start(command), name)
        try:
            begin = printed.index("{")
            answer, _ = json.JSONDecoder().raw_decode(printed, begin)
        except ValueError:
            raise Failure(f"{name} printed no JSON object: {brief(printed)}") from None
        if isinstance(answer, dict) and answer.get("valid") is False:
            why = "; ".join(answer.get("complaints", []))
            raise Failure(f"{name} says that its run is not valid" + (f": {why}" if why else ""))
        return answer


def read_figure(run: Run) -> None:
    try:
        run.value = figure_of(run.raw, run.series.figure)
    except Failure as failure:
        run.error = str(failure)


def figure_of(answer: object, figure: str) -> float:
    """The number at a dotted path, or the largest of the numbers at several, with "|" between."""
    return max(number_at(answer, path) for path in figure.split("|"))


def at_path(answer: object, words: list[str]) -> object:
    """What is there, or None. A key of the JSON may have dots in it: the longest one counts."""
    if not words:
        return answer
    for end in range(len(words), 0, -1):
        key = ".".join(words[:end])
        if isinstance(answer, dict) and key in answer:
            return at_path(answer[key], words[end:])
    return None


def number_at(answer: object, path: str) -> float:
    """The number at a dotted path. An object with client and server stands for their sum."""
    at = at_path(answer, path.split("."))
    if at is None:
        raise Failure(f"no {path} in the JSON")
    if isinstance(at, dict) and {"client", "server"} <= at.keys():
        at = at["client"] + at["server"]
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        raise Failure(f"{path} in the JSON is no number")
    return float(at)
