"""What the figures of kv.py say: reading what programs print, medians, goals, the table."""
import csv
import io
import statistics


def redis_benchmark(text):
    """What `redis-benchmark --csv` printed: {"GET": {"rate_hz": ..., "p50_us": ..., "p99_us": ...}, ...}."""
    rows = list(csv.DictReader(io.StringIO(text)))
    found = {row["test"]: {"rate_hz": float(row["rps"]), "p50_us": float(row["p50_latency_ms"]) * 1e3,
                           "p99_us": float(row["p99_latency_ms"]) * 1e3} for row in rows if row.get("rps")}
    if not found:
        raise ValueError(f"redis-benchmark printed no figures: {text[:200]!r}")
    return found


def info(text):
    """What INFO answered: {"used_memory": "123", ...}."""
    pairs = (line.strip().partition(":") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}


def bytes_per_record(before, after, records):
    return (after - before) / records


def saturated(server_share, client_share):
    """Which side had no time left, of the shares of a core that each had: busy from 0.9 on."""
    busy = [who for who, share in (("server", server_share), ("client", client_share)) if share >= 0.9]
    return " and ".join(busy) or "neither"


# Limits above which another unit is easier to read: (value, its size, its name).
SCALES = {"/s": ((1e6, 1e6, " M/s"), (1e4, 1e3, " k/s")), "ns": ((1e7, 1e6, " ms"), (1e4, 1e3, " us")),
          "us": ((1e7, 1e6, " s"), (1e4, 1e3, " ms"))}


def digits(value):
    """Three of them, whatever the magnitude."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def amount(value, unit):
    """With the unit, or one that is a power of 1000 of it."""
    for limit, size, name in SCALES.get(unit, ()):
        if abs(value) >= limit:
            return digits(value / size) + name
    return digits(value) + ("" if unit == "/s" else " ") + unit


class Row:
    """One figure of several repetitions, perhaps beside another program's, perhaps with a goal.

    `goal`: (">=" or "<=", number, "x" for the ratio of ours to theirs, or "" for the figure itself), or None.
    """

    def __init__(self, what, unit, ours, beside="", theirs=(), goal=None, note=""):
        if not ours:
            raise ValueError(f"{what}: nothing was measured")
        self.what, self.unit, self.beside, self.goal, self.note = what, unit, beside, goal, note
        self.ours, self.theirs = list(ours), list(theirs)

    @property
    def our_median(self):
        return statistics.median(self.ours)

    @property
    def their_median(self):
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self):
        return self.our_median / self.their_median if self.their_median else None

    @property
    def reached(self):
        """None where there is no goal; False where what it is about was not measured."""
        if self.goal is None:
            return None
        sign, wanted, of = self.goal
        value = self.ratio if of == "x" else self.our_median
        if value is None:
            return False
        return value >= wanted if sign == ">=" else value <= wanted

    def cells(self):
        sign, wanted, of = self.goal or ("", None, "")
        goal = "" if self.goal is None else f"{sign} {amount(wanted, 'x' if of == 'x' else self.unit)}"
        verdict = {None: "reported", True: "reached", False: "missed"}[self.reached]
        theirs = "" if self.their_median is None else amount(self.their_median, self.unit)
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        return [self.what, amount(self.our_median, self.unit), self.beside, theirs, ratio, goal, verdict, self.note]

    def as_json(self):
        return {"what": self.what, "unit": self.unit, "cordma": self.our_median, "beside": self.beside or None,
                "theirs": self.their_median, "ratio": self.ratio,
                "goal": None if self.goal is None else " ".join(map(str, self.goal)).strip(), "reached": self.reached,
                "note": self.note or None, "all": self.ours, "all_theirs": self.theirs}


HEAD = ["what", "cordma-kv", "beside it", "its figure", "ratio", "goal", "", "note"]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def markdown(rows):
    lines = [line(HEAD), line(["---"] * len(HEAD))]
    return "\n".join(lines + [line(row.cells()) for row in rows]) + "\n"


def verdict(rows):
    """How many goals are reached, and which are not."""
    judged = [row for row in rows if row.goal is not None]
    missed = [row.what for row in judged if not row.reached]
    text = f"{len(judged) - len(missed)} of {len(judged)} goals reached"
    return text + (f"; missed: {', '.join(missed)}" if missed else "")
