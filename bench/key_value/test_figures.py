"""What is computed of the figures of kv.py."""
import os
import subprocess
import sys
import time
import unittest

from key_value import figures, parts, servers
from key_value.figures import Row

CSV = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","82918.74","0.421","0.128","0.407","0.727","0.855","5.623"
"GET","86206.90","0.402","0.120","0.391","0.703","0.831","4.111"
'''


class Reading(unittest.TestCase):
    def test_redis_benchmark(self):
        found = figures.redis_benchmark(CSV)
        self.assertEqual(set(found), {"SET", "GET"})
        self.assertAlmostEqual(found["GET"]["rate_hz"], 86206.9)
        self.assertAlmostEqual(found["SET"]["p50_us"], 407)
        self.assertAlmostEqual(found["SET"]["p99_us"], 855)

    def test_redis_benchmark_without_figures(self):
        for text in ("", "Could not connect\n", '"test","rps"\n'):
            with self.assertRaises(ValueError):
                figures.redis_benchmark(text)

    def test_info(self):
        found = figures.info("$40\r\n# Memory\r\nused_memory:123\r\nused_memory_human:1:2\r\n\r\n")
        self.assertEqual(found, {"used_memory": "123", "used_memory_human": "1:2"})

    def test_cpu_time_of_a_process(self):
        before = servers.cpu_ns(os.getpid())
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        self.assertGreaterEqual(servers.cpu_ns(os.getpid()) - before, 20_000_000)
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.assertGreaterEqual(servers.cpu_ns(child.pid), 0)
        child.communicate(b"\n")
        with self.assertRaises(OSError):
            servers.cpu_ns(child.pid)

    def test_values_of_runs(self):
        runs = [{"a": {"b": 1}}, {"a": {"b": 3}}]
        self.assertEqual(parts.values(runs, "a", "b"), [1, 3])
        cpu = [{"cpu": {"client": {"ns_per_operation": 1.5}, "server": {"ns_per_operation": 2}}}]
        self.assertEqual(parts.both_sides(cpu), [3.5])

    def test_interleaving(self):
        order = []
        found = parts.interleaved(3, a=lambda: order.append("a") or 1, b=lambda: order.append("b") or 2)
        self.assertEqual(order, ["a", "b"] * 3)
        self.assertEqual(found, {"a": [1, 1, 1], "b": [2, 2, 2]})


class Judging(unittest.TestCase):
    def test_ratio_of_medians(self):
        row = Row("GET", "/s", [130, 1, 131], "redis-server", [100, 99, 1000], (">=", 1.3, "x"))
        self.assertEqual(row.our_median, 130)
        self.assertEqual(row.their_median, 100)
        self.assertAlmostEqual(row.ratio, 1.3)
        self.assertIs(row.reached, True)
        self.assertIs(Row("GET", "/s", [129], "redis-server", [100], (">=", 1.3, "x")).reached, False)

    def test_less_is_better(self):
        self.assertIs(Row("CPU", "ns", [70], "redis-server", [100], ("<=", 0.7, "x")).reached, True)
        self.assertIs(Row("CPU", "ns", [71], "redis-server", [100], ("<=", 0.7, "x")).reached, False)

    def test_the_figure_itself(self):
        self.assertIs(Row("p50", "us", [0.9, 0.8, 1.2], goal=("<=", 1.0, "")).reached, True)
        self.assertIs(Row("rate", "/s", [1.4e6], goal=(">=", 1.5e6, "")).reached, False)

    def test_without_a_goal_or_a_peer(self):
        self.assertIsNone(Row("x", "us", [1]).reached)
        self.assertIs(Row("x", "us", [1], goal=(">=", 1, "x")).reached, False)
        with self.assertRaises(ValueError):
            Row("x", "us", [])

    def test_goals_of_redis_benchmark(self):
        run = {"rate_hz": 100.0, "p99_us": 1.0, "cpu_ns": 100.0, "server_share": 0.5, "client_share": 1.0}
        ours = {**run, "rate_hz": 140.0, "cpu_ns": 60.0, "server_share": 0.98}
        rows = parts.redis_rows("get", 16, 2, "event", 1.3, {"event": [ours], "redis": [run]})
        self.assertEqual([row.reached for row in rows], [True, None, True])
        self.assertIn("GET -c 50 -d 64 -P 16 --threads 2", rows[0].what)
        self.assertEqual(rows[0].note, "cordma-kv 98%, its client 100%: server and client saturated; "
                                       "redis-server 50%, its client 100%: client saturated")

    def test_memory(self):
        self.assertEqual(figures.bytes_per_record(1000, 11000, 100), 100)

    def test_who_is_saturated(self):
        self.assertEqual(figures.saturated(0.95, 0.3), "server")
        self.assertEqual(figures.saturated(0.5, 1.0), "client")
        self.assertEqual(figures.saturated(0.99, 1.0), "server and client")
        self.assertEqual(figures.saturated(0.5, 0.5), "neither")


class Showing(unittest.TestCase):
    def test_numbers(self):
        for value, unit, text in ((0.5, "us", "0.5 us"), (0.3512, "x", "0.351 x"), (12.34, "B", "12.3 B"), (1234, "/s", "1234/s"),
                                  (86206.9, "/s", "86.2 k/s"), (1.5e6, "/s", "1.5 M/s"), (57700, "ns", "57.7 us"),
                                  (26400, "us", "26.4 ms"), (2e7, "us", "20 s"), (3e7, "ns", "30 ms"), (999.6, "ns", "1000 ns")):
            self.assertEqual(figures.amount(value, unit), text)

    def test_table(self):
        rows = [Row("GET", "/s", [2e5], "redis-server", [1e5], (">=", 1.3, "x"), "busy"), Row("p50", "us", [2], goal=("<=", 1.0, "")),
                Row("mix", "/s", [5])]
        lines = figures.markdown(rows).splitlines()
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[2], "| GET | 200 k/s | redis-server | 100 k/s | 2.00 x | >= 1.3 x | reached | busy |")
        self.assertEqual(lines[3], "| p50 | 2 us |  |  |  | <= 1 us | missed |  |")
        self.assertIn("reported", lines[4])
        self.assertTrue(all(line.count("|") == 9 for line in lines))
        self.assertEqual(figures.verdict(rows), "1 of 2 goals reached; missed: p50")

    def test_json(self):
        found = Row("GET", "/s", [1, 3, 2], "redis-server", [4], (">=", 1.3, "x")).as_json()
        self.assertEqual((found["cordma"], found["theirs"], found["ratio"], found["goal"], found["reached"]),
                         (2, 4, 0.5, ">= 1.3 x", False))
        self.assertEqual(found["all"], [1, 3, 2])


if __name__ == "__main__":
    unittest.main()
