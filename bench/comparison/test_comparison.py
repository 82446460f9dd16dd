"""The harness against programs that behave and programs that do not.

    python3 -m unittest discover -s bench -p 'test_*.py'
"""

from __future__ import annotations

import json
import re
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from comparison import plot, programs, report, results, rows  # noqa: E402
from comparison.model import Goal, Row, Run, Series  # noqa: E402

CSV = ("[1700000000.1] UCX  WARN  something unasked for, with, commas\n"
       "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
       "  300,1159.653,1128.930,1128.930,55.36,1000.0,886,2000000\n")
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


class UcxOutput(unittest.TestCase):
    def test_figures_are_read_in_cordma_units_whatever_warnings_stand_around(self):
        figures = programs.ucx_figures(CSV)
        self.assertEqual(figures["one_way_us"]["p50"], 1159.653)
        self.assertAlmostEqual(figures["bandwidth_GBps"], 1.048576)
        self.assertEqual(figures["rate_Mps"], 2.0)

    def test_output_without_a_result_line_names_the_error_in_it(self):
        with self.assertRaisesRegex(programs.Failure, "UCX  ERROR no transport"):
            programs.ucx_figures("hello\nUCX  ERROR no transport\nbye\n")


class PerftestOutput(unittest.TestCase):
    def test_latencies_are_read_from_the_table(self):
        figures = programs.perftest_figures(
            "---\n local address: LID 0000 QPN 0x0011\n"
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
            "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
            " 64      1000          41.51          977.11       48.25              52.46       "
            "\t12.01          80.00              500.00\n---\n", "ib_send_lat")
        self.assertEqual(figures["one_way_us"], {"mean": 52.46, "p50": 48.25})

    def test_bandwidths_are_read_in_cordma_units(self):
        figures = programs.perftest_figures(
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
            " 65536      500              23.00              22.00              0.000352\n",
            "ib_write_bw")
        self.assertAlmostEqual(figures["bandwidth_GBps"], 0.023068672)
        self.assertEqual(figures["rate_Mps"], 0.000352)

    def test_no_table_names_the_error(self):
        with self.assertRaisesRegex(programs.Failure, "Failed to open"):
            programs.perftest_figures("Failed to open the device\n", "ib_send_lat")


class Figures(unittest.TestCase):
    def test_client_and_server_are_summed(self):
        answer = {"cpu_ns_per_message": {"client": 3, "server": 4.5}}
        self.assertEqual(programs.figure_of(answer, "cpu_ns_per_message"), 7.5)

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
                "echo 'port in use: error' >&2; exit 1": "port in use"}
        for script, reason in ways.items():
            with self.subTest(script=script):
                run = self.run_perf(script)
                self.assertIsNone(run.value)
                self.assertIn(reason, run.error)

    def test_a_program_that_is_not_there_is_missing_not_failed(self):
        run = self.programs.run(series("bench-of-nowhere"), 1)
        self.assertTrue(run.missing)

    def test_a_peer_whose_server_dies_at_once_is_a_failure(self):
        self.put("ucx_perftest", "echo 'UCX  ERROR no such device'; exit 1")
        run = self.programs.run(series("ucx_perftest"), 1)
        self.assertIn("no such device", run.error)

    def test_a_program_that_hangs_is_ended(self):
        before, programs.TIME_LIMIT_S = programs.TIME_LIMIT_S, 0.2
        self.addCleanup(setattr, programs, "TIME_LIMIT_S", before)
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
                self.assertTrue(row.peers or row.goal and row.goal.on == "value", row.name)
            names = [(row.name, row.peers) for row in table]
            self.assertEqual(len(names), len(set(names)))

    def test_the_table_over_rdma_has_every_figure_over_rdma(self):
        names = [row.name for row in rows.rdma_rows()]
        for part in ("one-way, polling", "one-way, event", "write 64 KiB", "message rate 64 B",
                     "write 64 B, instructions", "send 64 B, instructions", "recv 64 B, instructions"):
            self.assertTrue(any(part in name for name in names), part)

    def test_a_report_of_nothing_but_missing_programs_can_be_written(self):
        runs = [Run(series_, 1, "", error="not found", missing=True)
                for row in rows.all_rows() for series_ in (row.ours, *row.peers)]
        all_results = [results.result_of(row, runs) for row in rows.all_rows()]
        self.assertNotIn("None", report.text(FACTS, all_results).replace("None |", ""))
        json.dumps(report.as_json(FACTS, all_results, runs))
        self.assertIn("no row has figures", plot.svg(["a", "b"], all_results))

    def test_the_picture_is_well_formed_and_shows_each_ratio(self):
        runs = ran(self.ours, [1.0, 1.5]) + ran(self.theirs, [8.0, 2.0])
        picture = plot.svg(["a & b", "c"], [results.result_of(self.row(Goal("<=", 0.9)), runs)])
        self.assertEqual(len(re.findall("<circle", picture)), 1)
        self.assertIn("a &amp; b", picture)


if __name__ == "__main__":
    unittest.main()
