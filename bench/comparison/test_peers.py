"""What the peers print, as they printed it on Debian 12, and the figures read from it."""

from __future__ import annotations

import sys
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from comparison import peer_output, peers  # noqa: E402
from comparison.processes import Failure  # noqa: E402

UCX = ("[1700000000.1] UCX  WARN  something unasked for, with, commas\n"
       "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
       "  300,1159.653,1128.930,1128.930,55.36,1000.0,886,2000000\n")

# sockperf 3.7: server --tcp, ping-pong --tcp --full-rtt -m 14 -t 1
SOCKPERF = """\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 23458 # TCP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=125728; ReceivedMessages=125727
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=69022; ReceivedMessages=69022
sockperf: \x1b[2;35m====> avg-rtt=7.951 (std-dev=11.175)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 7.951 usec
sockperf: \x1b[2;35mTotal 69022 observations\x1b[0m; each percentile contains 690.22 observations
sockperf: ---> <MAX> observation = 2791.750
sockperf: ---> percentile 99.999 =  877.173
sockperf: ---> percentile 99.990 =   50.555
sockperf: ---> percentile 99.900 =   27.671
sockperf: ---> percentile 99.000 =    9.143
sockperf: ---> percentile 90.000 =    8.112
sockperf: ---> percentile 75.000 =    7.831
sockperf: ---> percentile 50.000 =    7.761
sockperf: ---> percentile 25.000 =    7.721
sockperf: ---> <MIN> observation =    7.581
"""

# qperf 0.4.11: 127.0.0.1 -m 8 -t 2 -vv -uu -e 6 tcp_lat
QPERF_LATENCY = """\
tcp_lat:
    latency          =     36249.6 ns
    msg_rate         =     27586.5 /sec
    msg_size         =           8 bytes
    port             =       23668 
    time             =  2000000000 ns
    timeout          =  5000000000 ns
    loc_cpus_used    =        65.5 % cpus
    loc_cpus_user    =           1 % cpus
    loc_cpus_intr    =        24.5 % cpus
    loc_cpus_kernel  =          40 % cpus
    loc_real_time    =  2000000000 ns
    loc_cpu_time     =  1309999943 ns
    loc_send_bytes   =      220696 bytes
    loc_send_msgs    =       27587 
    rem_cpus_used    =        65.5 % cpus
    rem_real_time    =  2000000000 ns
    rem_cpu_time     =  1309999943 ns
"""

# qperf 0.4.11: 127.0.0.1 -m 64K -t 1 -vv -uu -e 6 tcp_bw
QPERF_BANDWIDTH = """\
tcp_bw:
    bw                =  1324417024 bytes/sec
    msg_rate          =     20008.9 /sec
    msg_size          =       65536 bytes
    time              =  1000000000 ns
    send_cost         =   835376379 ns/GB
    send_cpus_used    =     109.901 % cpus
    send_real_time    =  1010000000 ns
    send_cpu_time     =  1110000014 ns
    recv_real_time    =  1000000000 ns
    recv_cpu_time     =  1100000024 ns
"""

# libfabric 1.17: fi_pingpong -p net -e msg -I 20000 -S 8
FABRIC = """\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
8       20k     =20k     312k        0.19s      1.67       4.80       0.21
"""

# perftest 4.5: ib_write_lat -d rxe0 -x 1 -F -s 64 -n 500
WRITE_LATENCY = (
    " Data ex. method : Ethernet\n"
    "-----------------------------------------------------------------------------------\n"
    " local address: LID 0000 QPN 0x0011 PSN 0x4399e4 RKey 0x0003dd VAddr 0x0055a660e69000\n"
    " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:01\n"
    "-----------------------------------------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
    " 64      500          11.08          481.39       11.34    \t       12.46       "
    "\t9.43   \t\t62.77   \t\t481.39 \n"
    "-----------------------------------------------------------------------------------\n")


class UcxOutput(unittest.TestCase):
    def test_figures_are_read_in_cordma_units_whatever_warnings_stand_around(self):
        figures = peer_output.ucx(UCX)
        self.assertEqual(figures["one_way_us"]["p50"], 1159.653)
        self.assertAlmostEqual(figures["bandwidth_GBps"], 1.048576)
        self.assertEqual(figures["rate_Mps"], 2.0)

    def test_output_without_a_result_line_names_the_error_in_it(self):
        with self.assertRaisesRegex(Failure, "UCX  ERROR no transport"):
            peer_output.ucx("hello\nUCX  ERROR no transport\nbye\n")


class PerftestOutput(unittest.TestCase):
    def test_latencies_are_read_from_the_table(self):
        figures = peer_output.perftest(WRITE_LATENCY, "ib_write_lat")
        self.assertEqual(figures["one_way_us"], {"mean": 12.46, "p50": 11.34})
        self.assertEqual(figures["iterations"], 500)

    def test_bandwidths_are_read_in_cordma_units(self):
        figures = peer_output.perftest(
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
            " 65536      500              23.00              22.00              0.000352\n",
            "ib_write_bw")
        self.assertAlmostEqual(figures["bandwidth_GBps"], 0.023068672)
        self.assertEqual(figures["rate_Mps"], 0.000352)

    def test_no_table_names_the_error(self):
        with self.assertRaisesRegex(Failure, "Failed to open"):
            peer_output.perftest("Failed to open the device\n", "ib_send_lat")


class SockperfOutput(unittest.TestCase):
    def test_round_trips_are_halved(self):
        figures = peer_output.sockperf(SOCKPERF)
        self.assertEqual(figures["iterations"], 69022)
        self.assertAlmostEqual(figures["one_way_us"]["mean"], 3.9755)
        self.assertAlmostEqual(figures["one_way_us"]["p50"], 3.8805)
        self.assertAlmostEqual(figures["one_way_us"]["p999"], 13.8355)
        self.assertEqual(figures["round_trip_us"]["99.999"], 877.173)

    def test_halves_that_sockperf_made_itself_are_refused(self):
        halves = SOCKPERF.replace("Summary: Round trip is", "Summary: Latency is")
        with self.assertRaisesRegex(Failure, "no round trip"):
            peer_output.sockperf(halves)

    def test_no_result_names_the_error(self):
        with self.assertRaisesRegex(Failure, "Can`t connect socket"):
            peer_output.sockperf("sockperf: ERROR: Can`t connect socket (errno=111)\n")


class QperfOutput(unittest.TestCase):
    def test_latency_is_one_way_and_a_mean(self):
        figures = peer_output.qperf(QPERF_LATENCY)
        self.assertAlmostEqual(figures["one_way_us"]["mean"], 36.2496)
        self.assertNotIn("p50", figures["one_way_us"])

    def test_cpu_time_is_the_hosts_and_counted_once(self):
        cpu = peer_output.qperf(QPERF_LATENCY)["cpu_ns_per_message"]
        self.assertAlmostEqual(cpu, 1309999943 / (2 * 27586.5))

    def test_bandwidth_is_in_bytes(self):
        figures = peer_output.qperf(QPERF_BANDWIDTH)
        self.assertAlmostEqual(figures["bandwidth_GBps"], 1.324417024)
        self.assertAlmostEqual(figures["cpu_ns_per_message"], 1110000014 / (1.01 * 20008.9))

    def test_figures_stand_without_what_is_not_printed(self):
        figures = peer_output.qperf("tcp_lat:\n    latency  =  25.6 us\n")
        self.assertNotIn("cpu_ns_per_message", figures)

    def test_no_result_names_the_error(self):
        with self.assertRaisesRegex(Failure, "failed to connect"):
            peer_output.qperf("tcp_lat:\n127.0.0.1: failed to connect\n")


class FabricOutput(unittest.TestCase):
    def test_a_transfer_is_one_way_and_a_mean(self):
        figures = peer_output.fabric(FABRIC)
        self.assertEqual(figures["one_way_us"], {"mean": 4.80})
        self.assertEqual(figures["rate_Mps"], 0.21)
        # 20,000 round trips took 0.19 s: a round trip is two transfers.
        self.assertAlmostEqual(2 * 20_000 * figures["one_way_us"]["mean"] / 1e6, 0.19, delta=0.005)

    def test_no_table_names_the_error(self):
        with self.assertRaisesRegex(Failure, "No data available"):
            peer_output.fabric("fi_getinfo(): util/pingpong.c:1489, ret=-61 (No data available)\n")


class Commands(unittest.TestCase):
    def commands(self, name: str, *arguments: str) -> tuple[list[str], list[str]]:
        sides = peers.Sides("/bin/" + name, arguments, 4711, (2, 3))
        return peers.PEERS[name].commands(sides)

    def test_every_peer_is_pinned_and_both_sides_meet_at_the_port(self):
        for name in ("ucx_perftest", "sockperf", "qperf", "fi_pingpong"):
            with self.subTest(name=name):
                server, client = self.commands(name, "-x")
                self.assertIn("2", server)
                self.assertIn("3", client)
                self.assertIn("4711", server)
                self.assertIn("4711", client)

    def test_both_sides_of_sockperf_wait_alike(self):
        server, client = self.commands("sockperf", "-m", "14", "--nonblocked")
        self.assertIn("--nonblocked", server)
        self.assertNotIn("-m", server)
        self.assertIn("--full-rtt", client)

    def test_perftest_without_a_device_is_a_failure(self):
        with unittest.mock.patch.dict("os.environ", clear=True):
            with self.assertRaisesRegex(Failure, "RDMA_DEVICE"):
                self.commands("ib_write_lat")


if __name__ == "__main__":
    unittest.main()
