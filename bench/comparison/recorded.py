"""What a JSON file of compare.sh, cordma-perf or bench-limits holds that can be drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from . import report


class Unreadable(Exception):
    """Why nothing can be drawn from a file, as a sentence."""


@dataclass
class Recorded:
    """Measurements that belong together: one comparison, or what cordma-perf wrote."""

    name: str  # name of the file, to distinguish pictures of several files
    facts: list[str] = field(default_factory=list)  # date and commit; the machine; warnings
    perf: list[dict] = field(default_factory=list)  # one object per run of cordma-perf
    limits: list[dict] = field(default_factory=list)  # one object per run of bench-limits
    rows: list[dict] = field(default_factory=list)  # of a comparison's table


def read(paths: list[Path]) -> list[Recorded]:
    """Each comparison by itself; what stands in files of cordma-perf and bench-limits together."""
    comparisons: list[Recorded] = []
    single: Recorded | None = None
    for path in paths:
        document = parsed(path)
        if isinstance(document, dict) and "rows" in document and "runs" in document:
            comparisons.append(of_comparison(path.stem, document))
            continue
        if single is None:
            single = Recorded(path.stem)
        add_measurements(single, document, path)
    return [*comparisons, *([single] if single else [])]


def parsed(path: Path) -> object:
    try:
        return json.loads(path.read_text())
    except OSError as problem:
        raise Unreadable(f"{path} cannot be read: {problem.strerror}.") from None
    except ValueError as problem:
        raise Unreadable(f"{path} holds no JSON: {problem}.") from None


def of_comparison(name: str, document: dict) -> Recorded:
    try:
        found = Recorded(name, [*report.origin(document), *report.warnings(document)],
                         rows=document["rows"])
        for run in document["runs"]:
            if run["raw"] is not None and run["error"] is None:
                add(found, run["raw"])
        return found
    except (KeyError, TypeError, AttributeError) as problem:
        raise Unreadable(f"{name} is no whole comparison of compare.sh: {problem!r}.") from None


def add_measurements(found: Recorded, document: object, path: Path) -> None:
    members = document if isinstance(document, list) else [document]
    before = len(found.perf) + len(found.limits)
    for member in members:
        add(found, member)
    if len(found.perf) + len(found.limits) == before:
        failed = [member for member in members if is_perf(member)]
        if failed:
            raise Unreadable(f"{path}: none of its runs is valid. {complaint_of(failed)}")
        raise Unreadable(f"{path} is neither compare.sh's, cordma-perf's nor bench-limits' JSON.")
    if found.perf and not found.facts:
        found.facts = facts_of(found.perf[0])


def add(found: Recorded, measurement: object) -> None:
    """A run of cordma-perf that says it is not valid is left out: it may lack its figures."""
    if is_limit(measurement):
        found.limits.append(measurement)
    elif is_perf(measurement) and measurement.get("valid") is not False:
        found.perf.append(measurement)


def is_limit(measurement: object) -> bool:
    return (isinstance(measurement, dict) and "test" in measurement
            and measurement.get("program") == "bench-limits")


def is_perf(measurement: object) -> bool:
    """By its shape: cordma-perf names a transport."""
    return (isinstance(measurement, dict) and not is_limit(measurement)
            and "test" in measurement and "transport" in measurement)


def complaint_of(failed: list[dict]) -> str:
    """The first that a run makes, as a sentence."""
    for run in failed:
        complaints = run.get("complaints")
        if isinstance(complaints, list) and complaints:
            of = " ".join(str(run[key]) for key in ("transport", "test") if run.get(key))
            return f"{of}: {complaints[0]}" + ("" if str(complaints[0]).endswith(".") else ".")
    return "They do not say why."


def facts_of(perf: dict) -> list[str]:
    under = perf.get("conditions")
    under = under if isinstance(under, dict) else {}
    made = ", cordma ".join(str(word) for word in (under.get("date"), perf.get("version")) if word)
    if under.get("commit"):
        made += f", commit {str(under['commit'])[:12]}"
    machine = [str(under["cpu"])] if under.get("cpu") else []
    kind = " (virtual machine)" if under.get("virtual") is True else ""
    machine += [f"{under['cpus']} CPUs{kind}"] if under.get("cpus") else []
    machine += [str(under["kernel"])] if under.get("kernel") else []
    return [line for line in (made, ", ".join(machine)) if line]
