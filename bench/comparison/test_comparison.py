"""The harness against programs that behave and programs that do not.

    python3 -m unittest discover -s bench -p 'test_*.py'
"""

from __future__ import annotations

import contextlib
import io
import json
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from comparison import machine, processes, programs, report, results, rows  # noqa: E402
from comparison.model import Goal, Row, Run, Series  # noqa: E402

FACTS = {"date": "d", "quick": False, "repetitions": 5,
         "commit": {"commit": None, "changed": False},
         "versions": {"ucx": None, "compiler": None, "build_type": None},
         "machine": {"cpu": "c", "cpus_online": 2, "virtual": True, "kernel": "k", "system": "s",
                     "cpus_used": [0, 1], "load_at_start": 0.0}}


def series(program: str, *arguments: str) -> Series:
    return Series(program, arguments, "one_way_us.p50", program)


def ran(of: Series, values: list[float | None], error: str | None = None,
        probe: float | None = None) -> list[Run]:
    return [Run(of, at, "", value=value, error=error if value is None else None,
                cache_line_us=probe) for at, value in enumerate(values, 1)]


class Figures(unittest.TestCase):
    def test_client_and_server_are_summed(self):
        answer = {"cpu_ns_per_message": {"client": 3, "server": 4.5}}
        self.assertEqual(programs.figure_of(answer, "cpu_ns_per_message"), 7.5)

    def test_of_several_paths_the_largest_number_counts(self):
        answer = {"client": {"cpu_percent": 0.5}, "server": {"cpu_percent": 2}}
        self.assertEqual(programs.figure_of(answer, "client.cpu_percent|server.cpu_percent"), 2)
        with self.assertRaises(programs.Failure):
            programs.figure_of(answer, "client.cpu_percent|other.cpu_percent")

    def test_a_key_may_have_dots_in_it(self):
        answer = {"counts": {"shm.tag": {"median": 7}, "shm": {"tag": {"median": 8}}}}
        self.assertEqual(programs.figure_of(answer, "counts.shm.tag.median"), 7)
        with self.assertRaisesRegex(programs.Failure, "no counts.shm.am.median"):
            programs.figure_of(answer, "counts.shm.am.median")

    def test_what_is_not_a_number_is_a_failure(self):
        for answer in ({}, {"a": None}, {"a": True}, {"a": "1"}, [], None):
            with self.assertRaises(programs.Failure):
                programs.figure_of(answer, "a")


class FakePrograms(unittest.TestCase):
    """A build folder with a cordma-perf that does what a test says."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        (self.build / "bench").mkdir()
        self.programs = programs.Programs(self.build, (0, 1))

    def put(self, name: str, script: str) -> None:
        path = self.build / "bench" / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_perf(self, script: str) -> Run:
        self.put("cordma-perf", script)
        return self.programs.run(series("cordma-perf"), 1)

    def test_a_good_run_gives_its_figure(self):
        run = self.run_perf("echo noise; echo '{\"one_way_us\": {\"p50\": 0.5}, \"valid\": true}'")
        self.assertEqual((run.value, run.error), (0.5, None))

    def test_every_way_to_fail_gives_a_reason_and_no_value(self):
        ways = {"exit 3": "exited with 3", "kill -9 $$": "killed by signal 9",
                "echo hello": "no JSON object", "true": "printed nothing",
                "echo '{}'": "no one_way_us.p50", "echo '{\"valid\": false}'": "not valid",
                "echo '{\"valid\": false, \"complaints\": [\"lost one\"]}'": "valid: lost one",
                "echo 'port in use: error' >&2; exit 1": "port in use"}
        for script, reason in ways.items():
            with self.subTest(script=script):
                run = self.run_perf(script)
                self.assertIsNone(run.value)
                self.assertIn(reason, run.error)

    def test_a_program_that_is_not_there_is_missing_not_failed(self):
        run = self.programs.run(series("bench-of-nowhere"), 1)
        self.assertTrue(run.missing)

    def test_another_build_stands_beside_this_one_and_shares_no_run_with_it(self):
        self.put("cordma-perf", "echo '{\"one_way_us\": {\"p50\": 3}}'")
        row = Row("r", "g", "us", series("cordma-perf"), (series("peer"),), Goal("<=", 1.1))
        with tempfile.TemporaryDirectory() as folder:
            before = Path(folder) / "cordma-perf"
            before.write_text("#!/bin/sh\necho '{\"one_way_us\": {\"p50\": 2}}'\n")
            before.chmod(0o700)
            both = programs.Programs(self.programs.build, (0, 1), beside=Path(folder))
            beside, = rows.beside_rows([row, row])
            self.assertNotEqual(both.command(beside.ours), both.command(beside.peers[0]))
            runs = [both.run(one, 1) for one in (beside.ours, *beside.peers)]
        result = results.result_of(beside, runs)
        self.assertEqual((result.ours, result.theirs, result.ratio), (3, 2, 1.5))
        self.assertEqual(report.verdict(result), "no goal")
        self.assertEqual(result.their_label, "before")
        self.assertEqual(results.problem_of(beside.peers[0], ran(beside.peers[0], [None], "x")),
                         "before failed: x")
        self.assertTrue(programs.Programs(None, (0, 1)).run(beside.peers[0], 1).missing)

    def test_ucx_is_taken_from_where_it_was_said_to_be_and_from_nowhere_else(self):
        self.put("ucx_perftest", "exit 1")
        with tempfile.TemporaryDirectory() as prefix:
            newest = programs.Programs(self.programs.build, (0, 1), ucx=Path(prefix))
            self.assertTrue(newest.run(series("ucx_perftest"), 1).missing)
            place = Path(prefix) / "bin" / "ucx_perftest"
            place.parent.mkdir()
            place.write_text("")
            place.chmod(0o700)
            self.assertEqual(newest.find("ucx_perftest"), str(place))

    def test_a_peer_whose_server_dies_at_once_is_a_failure(self):
        self.put("ucx_perftest", "echo 'UCX  ERROR no such device'; exit 1")
        run = self.programs.run(series("ucx_perftest"), 1)
        self.assertIn("no such device", run.error)

    def test_a_program_that_hangs_is_ended(self):
        before, processes.TIME_LIMIT_S = processes.TIME_LIMIT_S, 0.2
        self.addCleanup(setattr, processes, "TIME_LIMIT_S", before)
        self.assertIn("did not finish", self.run_perf("sleep 60").error)

    def test_a_second_figure_of_the_same_command_starts_nothing(self):
        first = self.run_perf("echo '{\"one_way_us\": {\"p50\": 1}, \"rate_Mps\": 7}'")
        self.put("cordma-perf", "exit 1")
        other = Series("cordma-perf", (), "rate_Mps", "rate")
        self.assertEqual(self.programs.run(other, 1, before=first).value, 7)


class Rows(unittest.TestCase):
    ours, theirs, third = series("cordma-perf"), series("peer"), series("third")

    def row(self, goal: Goal | None, *peers: Series) -> Row:
        return Row("r", "g", "us", self.ours, peers or (self.theirs,), goal)

    def test_the_ratio_is_of_the_medians_and_the_goal_is_judged_by_it(self):
        runs = ran(self.ours, [1.0, 0.8, 50.0]) + ran(self.theirs, [2.0, 1.0, 1.0])
        result = results.result_of(self.row(Goal("<=", 1.0)), runs)
        self.assertEqual((result.ours, result.theirs, result.ratio), (1.0, 1.0, 1.0))
        self.assertEqual(result.ratios, [0.5, 0.8, 50.0])
        self.assertTrue(result.reached)
        self.assertFalse(Goal("<=", 0.9).reached(result.ratio))
        self.assertTrue(Goal(">=", 0.95).reached(result.ratio))

    def test_of_two_peers_the_better_counts_and_both_are_needed(self):
        row = self.row(Goal("<=", 2.0), self.theirs, self.third)
        runs = ran(self.ours, [3.0]) + ran(self.theirs, [4.0])
        self.assertIsNone(results.result_of(row, runs).reached)
        runs += ran(self.third, [1.0])
        self.assertEqual(results.result_of(row, runs).ratio, 3.0)
        self.assertFalse(results.result_of(row, runs).reached)

    def test_an_absolute_goal_needs_no_peer(self):
        row = Row("allocations", "g", "", self.ours, (), Goal("<=", 0.0, on="value"))
        self.assertTrue(results.result_of(row, ran(self.ours, [0.0])).reached)
        self.assertFalse(results.result_of(row, ran(self.ours, [1.0])).reached)

    def test_a_failed_peer_is_said_in_its_row(self):
        runs = ran(self.ours, [1.0, 1.0]) + ran(self.theirs, [None, None], "no device")
        result = results.result_of(self.row(Goal("<=", 1.0)), runs)
        self.assertEqual(result.notes, ["peer failed: no device"])
        self.assertIn("| failed | peer failed: no device |", report.markdown(FACTS, [result]))

    def test_cpus_that_moved_between_the_halves_are_said(self):
        runs = ran(self.ours, [1.0], probe=0.03) + ran(self.theirs, [1.0], probe=0.17)
        self.assertRegex(results.result_of(self.row(None), runs).notes[0], "CPUs moved")

    def test_every_row_of_the_table_is_well_formed(self):
        for table in (rows.all_rows(), rows.rdma_rows()):
            for row in table:
                self.assertTrue(row.peers or (row.goal and row.goal.on == "value"), row.name)
            names = [(row.name, row.peers) for row in table]
            self.assertEqual(len(names), len(set(names)))

    def test_messages_over_tcp_stand_beside_raw_sockets_of_both_kinds(self):
        for size in ("64 KiB", "1 MiB"):
            goals = {row.peers[0].label: row.goal for row in rows.all_rows()
                     if row.name == f"tcp send/recv {size}"}
            self.assertIsNotNone(goals["raw sockets, blocking"])
            self.assertIsNone(goals["raw sockets, busy-polled"])

    def test_the_table_over_rdma_has_every_figure_over_rdma(self):
        names = [row.name for row in rows.rdma_rows()]
        for part in ("one-way, polling", "one-way, event", "write 64 KiB", "message rate 64 B",
                     "write 64 B, instructions", "send 64 B, instructions",
                     "recv 64 B, instructions", "write 64 B visible at the target",
                     "CPU per message, adaptive, think 10 ms", "one-way, adaptive, think 0",
                     "idle, event"):
            self.assertTrue(any(part in name for name in names), part)

    def test_the_table_names_the_version_of_ucx_and_warns_of_an_old_one(self):
        for prefix, warned in ((None, True), ("/opt/ucx", False)):
            versions = {**FACTS["versions"], "ucx": "1.13.1", "ucx_prefix": prefix}
            table = report.text({**FACTS, "versions": versions}, [])
            self.assertIn("UCX 1.13.1", table)
            self.assertEqual("--ucx PREFIX" in table, warned)
        self.assertEqual(machine.ucx_version("# Library version: 1.23.0"), "1.23.0")
        self.assertEqual(machine.ucx_version("# Version 1.13.1"), "1.13.1")
        self.assertIsNone(machine.ucx_version(""))

    def test_a_report_of_nothing_but_missing_programs_can_be_written(self):
        runs = [Run(series_, 1, "", error="not found", missing=True)
                for row in rows.all_rows() for series_ in (row.ours, *row.peers)]
        all_results = [results.result_of(row, runs) for row in rows.all_rows()]
        self.assertNotIn("None", report.text(FACTS, all_results).replace("None |", ""))
        json.dumps(report.as_json(FACTS, all_results, runs))

    def test_a_goal_for_short_gaps_is_judged_where_the_pause_is_below_the_wake_up_cost(self):
        row = Row("r", "g", "us", self.ours, (self.theirs,), Goal("<=", 1.1), gap_us=10)
        for cost_ns, reached, judged, note in (
                (12_000, False, True, "gap 10 us, below the wake-up cost of 12 us"),
                (10_000, None, False, "not judged: gap 10 us, wake-up cost 10 us"),
                (8_000, None, False, "not judged: gap 10 us"),
                (None, False, True, "wake-up cost unknown")):
            with self.subTest(cost_ns=cost_ns):
                ours, theirs = ran(self.ours, [3.0]), ran(self.theirs, [2.0])
                ours[0].raw = {"client": {"wake_cost_ns": cost_ns}}
                result = results.result_of(row, ours + theirs)
                self.assertEqual((result.reached, result.judged), (reached, judged))
                self.assertIn(note, "; ".join(result.notes))
                self.assertEqual(report.verdict(result), "no" if judged else "not judged")


class Quiet(unittest.TestCase):
    def waited(self, loads: list[float]) -> tuple[bool, int, str]:
        """Whether it became quiet, after how many seconds, and what was said."""
        pauses, said = [], io.StringIO()
        after = iter(loads)
        with contextlib.redirect_stderr(said):
            quiet = machine.wait_until_quiet(lambda: next(after, loads[-1]), pauses.append)
        return quiet, round(sum(pauses)), said.getvalue()

    def test_on_a_quiet_machine_the_first_run_begins_at_once(self):
        self.assertEqual(self.waited([0.49]), (True, 0, ""))

    def test_on_a_busy_one_it_waits_until_the_load_has_fallen_and_says_so_once(self):
        quiet, seconds, said = self.waited([2.0, 1.0, 0.5, 0.4])
        self.assertEqual((quiet, seconds), (True, 3))
        self.assertRegex(said, r"^load 2\.00: waiting .* 180 s at most; --no-wait skips it\n$")

    def test_it_waits_three_minutes_at_most(self):
        self.assertEqual(self.waited([2.0])[:2], (False, 180))


class Json(unittest.TestCase):
    def runs(self, curve: str) -> list[Run]:
        runs = []
        for figure in ("latency_us.p50", "latency_us.p99"):
            of = Series("cordma-perf", (), figure, "cordma", curve=curve)
            for repetition, p99 in ((1, 30), (2, 10), (3, 20)):
                raw = {"latency_us": {"p50": 1, "p99": p99, "curve": [[0, 1], [1, 2]]}}
                runs.append(Run(of, repetition, "cordma-perf", value=1.0, raw=raw))
        return runs

    def test_what_was_printed_stands_once_and_the_curve_in_the_median_repetition(self):
        written = report.as_json(FACTS, [], self.runs("drawn"))["runs"]
        self.assertEqual([run["raw"] is not None for run in written], [True] * 3 + [False] * 3)
        self.assertEqual(["curve" in run["raw"]["latency_us"] for run in written[:3]],
                         [False, False, True])

    def test_curves_that_are_not_drawn_are_dropped(self):
        written = report.as_json(FACTS, [], self.runs("dropped"))["runs"]
        self.assertFalse(any("curve" in run["raw"]["latency_us"] for run in written[:3]))

    def test_the_text_is_the_json(self):
        document = report.as_json(FACTS, [], self.runs("drawn"))
        self.assertEqual(json.loads(report.as_text(document)), document)


if __name__ == "__main__":
    unittest.main()
