"""The pictures, from made-up measurements, and bench/plot as it is started."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from comparison import svg  # noqa: E402
from comparison.pictures import pictures  # noqa: E402
from comparison.recorded import Recorded  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
WAITS = ("polling", "event", "adaptive")
CONDITIONS = {"date": "2026-11-26T00:14:00Z", "cpu": "A <fast> & small CPU", "cpus": 2,
              "kernel": "Linux 6.1", "virtual": True}


def latency(wait: str, think_us: float, p99: float = 9.0, **changes: object) -> dict:
    curve = [[0, 1], [0.5, 2], [0.9, 4], [0.99, p99], [0.999, 20], [1, 50]]
    return {"schema": "cordma-perf/1", "test": "send-lat", "transport": "shm", "wait": wait,
            "size": 8, "think_us": think_us, "arrival": "closed", "load_hz": None, "valid": True,
            "latency_us": {"of": "round trip", "from": "start", "p99": p99, "curve": curve},
            "cpu_ns_per_message": {"client": 100 + think_us, "server": 100},
            "conditions": CONDITIONS, "version": "0.2.0", **changes}


def bandwidth(size: int, test: str = "write-bw", transport: str = "shm") -> dict:
    return {"test": test, "transport": transport, "wait": "polling", "size": size, "think_us": 0,
            "bandwidth_GBps": size / 1000, "cpu_ns_per_message": {"client": 1, "server": 1}}


def failed() -> dict:
    """As cordma-perf writes a run that came to nothing."""
    return {"schema": "cordma-perf/1", "test": "send-lat", "transport": "shm", "wait": "event",
            "size": 8, "valid": False, "complaints": ["lost one", "and another"]}


def limit(size: int, test: str = "copy-write") -> dict:
    return {"program": "bench-limits", "test": test, "size": size, "bandwidth_GBps": size / 900}


def compared(ratio: float | None, reached: bool | None = True, **changes: object) -> dict:
    return {"what": "shm & so on", "peer": "UCX", "ratio": ratio, "reached": reached,
            "ratio_per_repetition": [ratio] if ratio else [],
            "goal": {"sign": "<=", "limit": 0.9, "on": "ratio"}, **changes}


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def lines(picture: str) -> list[ElementTree.Element]:
    return parsed(picture).findall(f"{SVG}polyline")


def words(picture: str) -> list[str]:
    return [element.text or "" for element in parsed(picture).iter(f"{SVG}text")]


class Percentiles(unittest.TestCase):
    def test_each_way_of_waiting_is_a_line_and_each_pause_a_picture(self):
        runs = [latency(wait, think) for wait in WAITS for think in (0, 100)]
        files = pictures(Recorded("r", ["d"], perf=runs))
        for name in ("percentiles-shm.svg", "percentiles-shm-think-100us.svg"):
            self.assertEqual(len(lines(files[name])), 3)
            self.assertTrue({*WAITS, "50", "90", "99", "99.9", "round trip, us"}
                            <= set(words(files[name])))

    def test_of_several_runs_the_one_with_the_median_p99_is_drawn(self):
        alike = [latency("event", 0, p99) for p99 in (5.0, 9.0, 19.0)]
        drawn = pictures(Recorded("r", perf=alike))["percentiles-shm.svg"]
        alone = pictures(Recorded("r", perf=alike[1:2]))["percentiles-shm.svg"]
        self.assertEqual(drawn, alone)

    def test_runs_without_a_curve_have_no_picture(self):
        run = latency("event", 0)
        del run["latency_us"]["curve"]
        self.assertEqual(pictures(Recorded("r", perf=[run])), {})

    def test_runs_that_differ_otherwise_are_told_apart_in_the_name(self):
        runs = [latency("event", 0), latency("event", 0, load_hz=1000),
                latency("event", 0, size=64), latency("event", 0, flows=4),
                latency("event", 0, stall_ms=5), latency("event", 0, check=True),
                latency("event", 0, messages=2), latency("event", 0, outstanding=2),
                latency("event", 0, depth=64), latency("event", 0, inline=0)]
        files = pictures(Recorded("r", perf=runs))
        names = [name for name in files if "percentiles" in name]
        self.assertEqual(len(names), len(runs))
        self.assertFalse(any("+" in name for name in names))
        stalled = next(files[name] for name in names if "stall-ms-5" in name)
        self.assertIn("stalls of 5 ms", " ".join(words(stalled)))

    def test_what_follows_from_a_load_stands_in_no_name(self):
        runs = [latency("event", 0), latency("event", 0, arrival="poisson", load_hz=1000,
                                             outstanding=4096, depth=4096)]
        self.assertEqual([*pictures(Recorded("r", perf=runs))],
                         ["percentiles-shm.svg", "percentiles-shm-load-1000.svg"])

    def test_what_does_not_vary_stands_in_no_name(self):
        runs = [latency(wait, 0, stall_ms=5, depth=64, flows=4) for wait in WAITS]
        self.assertEqual([*pictures(Recorded("r", perf=runs))], ["percentiles-shm.svg"])

    def test_in_an_open_loop_the_way_of_waiting_is_the_servers(self):
        runs = [latency(top, 0, arrival="poisson", load_hz=1000, client={"wait": "polling"},
                        server={"wait": wait})
                for top, wait in (("polling", "event"), ("adaptive", "adaptive"))]
        picture = pictures(Recorded("r", perf=runs))["percentiles-shm-load-1000.svg"]
        self.assertTrue({"event", "adaptive"} <= set(words(picture)))
        self.assertNotIn("polling", words(picture))


class CpuOverThink(unittest.TestCase):
    def test_three_lines_over_all_think_times(self):
        runs = [latency(wait, think) for wait in WAITS for think in (0, 10, 1000)]
        picture = pictures(Recorded("r", perf=runs))["cpu_over_think-shm.svg"]
        self.assertEqual(len(lines(picture)), 3)
        self.assertEqual(len(parsed(picture).findall(f"{SVG}circle")), 9)
        self.assertTrue({"0", "10 us", "1 ms"} <= set(words(picture)))

    def test_each_transport_has_a_picture(self):
        runs = [latency("event", think, transport=over) for over in ("shm", "tcp")
                for think in (0, 10)]
        names = pictures(Recorded("r", perf=runs)).keys()
        self.assertTrue({"cpu_over_think-shm.svg", "cpu_over_think-tcp.svg"} <= names)

    def test_only_closed_loops_with_one_request_at_a_time_count(self):
        runs = [latency("event", think) for think in (0, 10)]
        others = [latency("event", think, **changes) for think in (0, 10, 50) for changes in (
            {"arrival": "poisson", "load_hz": 1000}, {"flows": 2}, {"outstanding": 4})]
        alone = pictures(Recorded("r", perf=runs))["cpu_over_think-shm.svg"]
        files = pictures(Recorded("r", perf=[*runs, *others]))
        self.assertEqual(files["cpu_over_think-shm.svg"], alone)
        self.assertEqual(len([name for name in files if "cpu_over" in name]), 1)

    def test_runs_that_differ_otherwise_have_pictures_of_their_own(self):
        runs = [latency("event", think, stall_ms=stall) for think in (0, 10) for stall in (0, 5)]
        names = {name for name in pictures(Recorded("r", perf=runs)) if "cpu_over" in name}
        self.assertEqual(names, {"cpu_over_think-shm.svg", "cpu_over_think-shm-stall-ms-5.svg"})

    def test_one_think_time_is_no_line(self):
        names = pictures(Recorded("r", perf=[latency("event", 10)])).keys()
        self.assertNotIn("cpu_over_think-shm.svg", names)


class BandwidthOverSize(unittest.TestCase):
    def test_a_limit_stands_beside_the_transport_it_is_one_of(self):
        found = Recorded("r", perf=[bandwidth(size) for size in (256, 1024, 65536)],
                         limits=[*(limit(size) for size in (256, 1024, 65536)),
                                 *(limit(size, "tcp-bandwidth") for size in (256, 1024, 65536))])
        picture = pictures(found)["bandwidth_over_size-shm.svg"]
        self.assertEqual(len(lines(picture)), 2)
        self.assertTrue({"cordma write-bw", "memcpy, writing", "256 B", "64 KiB", "GB/s"}
                        <= set(words(picture)))

    def test_raw_sockets_that_block_and_that_poll_are_two_lines(self):
        sizes = (256, 1024, 65536)
        found = Recorded("r", perf=[bandwidth(size, "send-bw", "tcp") for size in sizes],
                         limits=[{**limit(size, "tcp-bandwidth"), "wait": wait} for size in sizes
                                 for wait in ("event", "polling")])
        self.assertTrue({"raw sockets, blocking", "raw sockets, polled"}
                        <= set(words(pictures(found)["bandwidth_over_size-tcp.svg"])))

    def test_what_varies_at_one_size_makes_lines_and_what_goes_with_the_size_does_not(self):
        sizes = (256, 1024, 65536)
        picture = pictures(Recorded("r", perf=[
            {**bandwidth(size), "outstanding": 2 if size > 1024 else 32} for size in sizes]))
        self.assertEqual(len(lines(picture["bandwidth_over_size-shm.svg"])), 1)
        picture = pictures(Recorded("r", perf=[
            {**bandwidth(size), "outstanding": many} for size in sizes for many in (1, 32)]))
        self.assertTrue({"cordma write-bw, 1 outstanding", "cordma write-bw, 32 outstanding"}
                        <= set(words(picture["bandwidth_over_size-shm.svg"])))

    def test_short_lines_are_left_out_beside_long_ones(self):
        sizes = (256, 1024, 65536)
        runs = [*(bandwidth(size) for size in sizes),
                *(bandwidth(size, "read-bw") for size in sizes[:2])]
        picture = pictures(Recorded("r", perf=runs))["bandwidth_over_size-shm.svg"]
        self.assertEqual(len(lines(picture)), 1)

    def test_one_size_is_no_line(self):
        self.assertEqual(pictures(Recorded("r", perf=[bandwidth(256)])), {})


class Ratios(unittest.TestCase):
    def test_each_ratio_is_a_bar_save_those_of_a_sweep(self):
        rows = [compared(0.5), compared(1.5, False), compared(None), compared(3, None, goal=None),
                compared(2, part_of="sweep")]
        picture = pictures(Recorded("r", ["a & b"], rows=rows))["ratios.svg"]
        bars = [one for one in parsed(picture).findall(f"{SVG}rect") if one.get("class") == "ratio"]
        self.assertEqual(len(bars), 3)
        self.assertIn("0.50 x", words(picture))

    def test_without_a_ratio_there_is_no_picture(self):
        self.assertEqual(pictures(Recorded("r", rows=[compared(None)])), {})


class Axes(unittest.TestCase):
    def test_ticks_stand_around_all_values(self):
        for low, high in ((1, 1), (10, 10), (0.3, 0.31), (1, 9e6), (49, 51), (5e-4, 2e8)):
            with self.subTest(low=low, high=high):
                ticks = svg.decades(low, high)
                self.assertLessEqual(ticks[0], low * 1.001)
                self.assertGreaterEqual(ticks[-1], high * 0.999)
                self.assertGreater(ticks[-1], ticks[0])


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def plot(self, *arguments: str | Path) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", BENCH / "plot", *arguments], text=True,
                              capture_output=True, check=False)

    def put(self, name: str, document: object) -> Path:
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def comparison(self) -> dict:
        raws = [latency(wait, think) for wait in WAITS for think in (0, 10)]
        return {"schema": "cordma-compare/1", "date": "2026-11-26 00:14 UTC", "quick": True,
                "repetitions": 2, "commit": {"commit": "abcdef0123456789", "changed": False},
                "machine": {"cpu": "c", "cpus_online": 2, "virtual": True, "kernel": "k",
                            "system": "s", "cpus_used": [0, 1], "load_at_start": 0.0},
                "versions": {"ucx": None, "compiler": None, "build_type": None},
                "rows": [compared(0.5)],
                "runs": [{"raw": raw, "error": None} for raw in raws]
                + [{"raw": None, "error": "no such program"}]}

    def test_a_run_of_cordma_perf_and_an_array_of_them_are_drawn_together(self):
        one = self.put("one.json", latency("event", 0))
        array = self.put("array.json", [latency("polling", 0), failed(), latency("adaptive", 0)])
        done = self.plot(one, array, "--out", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        picture = (self.folder / "out" / "percentiles-shm.svg").read_text()
        self.assertEqual(len(lines(picture)), 3)
        self.assertIn("A <fast> & small CPU, 2 CPUs (virtual machine), Linux 6.1", words(picture))
        self.assertIn("2026-11-26T00:14:00Z, cordma 0.2.0", words(picture))

    def test_a_comparison_is_drawn_with_its_date_machine_and_commit(self):
        done = self.plot(self.put("c.json", self.comparison()), "--out", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in (self.folder / "out").iterdir()}
        self.assertTrue({"percentiles-shm.svg", "cpu_over_think-shm.svg", "ratios.svg"} <= names)
        for name in names:
            said = " ".join(words((self.folder / "out" / name).read_text()))
            for part in ("2026-11-26 00:14 UTC", "commit abcdef012345", "c, 2 CPUs", "QUICK RUN"):
                self.assertIn(part, said)

    def test_pictures_of_several_comparisons_are_told_apart(self):
        (self.folder / "other").mkdir()
        files = [self.put(name, self.comparison()) for name in ("a.json", "b.json", "other/a.json")]
        done = self.plot(*files, "--out", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in (self.folder / "out").iterdir()}
        self.assertTrue({"a-ratios.svg", "b-ratios.svg", "a-2-ratios.svg"} <= names)

    def test_what_cannot_be_drawn_is_a_sentence_and_1(self):
        no_pairs = {"curve": [1, 2]}
        bad = {"nothing.json": ([], "neither"), "text.json": ("hello", "holds no JSON"),
               "one.json": (bandwidth(256), "Nothing to draw"),
               "half.json": ({"rows": [], "runs": [{}]}, "no whole comparison"),
               "invalid.json": (latency("event", 0, valid=False),
                                "none of its runs is valid. They do not say why."),
               "failed.json": ([failed(), failed()],
                               "none of its runs is valid. shm send-lat: lost one."),
               "odd.json": (latency("event", 0, latency_us=no_pairs), "What stands in odd has not")}
        for name, (document, reason) in bad.items():
            with self.subTest(name=name):
                done = self.plot(self.put(name, document), "--out", self.folder / "out")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(reason, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
        missing = self.plot(self.folder / "missing.json", "--out", self.folder)
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("No such file", missing.stderr)

    def test_wrong_options_are_2_and_help_is_0(self):
        for arguments in ((), ("x.json",), ("--out", "x"), ("x.json", "--out", "x", "--png")):
            self.assertEqual(self.plot(*arguments).returncode, 2, arguments)
        self.assertEqual(self.plot("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
