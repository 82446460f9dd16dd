"""The rows about waiting: sleeping between messages, what each way of waiting costs in CPU time at
which pace of messages, and what it costs when nothing comes at all."""

from __future__ import annotations

from dataclasses import replace

from .model import Goal, Row, Series
from .series import (CPU, HALF_ROUND_TRIP, ONE_WAY, ONE_WAY_MEAN, cordma, limit, qperf, sockperf,
                     ucx)

THINK_NAMES = {0: "0", 10: "10 us", 50: "50 us", 100: "100 us", 500: "500 us", 1000: "1 ms",
               10_000: "10 ms"}
THINK_ITERATIONS = {0: 50_000, 10: 20_000, 50: 10_000, 100: 10_000, 500: 2_000, 1000: 1_000,
                    10_000: 100}
# On an emulated device a message takes a hundred times as long, and starting a run takes some
# seconds.
RDMA_THINK_ITERATIONS = {0: 1_000, 10: 1_000, 50: 500, 100: 500, 500: 200, 1000: 200, 10_000: 30}
SHORT_GAPS_US = (0, 10)  # waking up may take longer than the pause: latency counts as well
CURVES_US = (0, 100)  # gaps with percentile curves


def event_mode() -> list[Row]:
    shm = cordma("shm", "send-lat", 8, HALF_ROUND_TRIP, 50_000, wait="event")
    tcp = cordma("tcp", "send-lat", 8, HALF_ROUND_TRIP, 20_000, wait="event")
    shm_name, tcp_name = "shm 8 B one-way, event", "tcp 8 B one-way, event"
    sleep = {tls: ucx(tls, "tag_lat", 8, ONE_WAY, 20_000, sleep=True) for tls in ("posix", "tcp")}
    return [
        Row(shm_name, "shm event", "us", shm,
            (limit("eventfd", 8, ONE_WAY, 50_000, "eventfd, two threads"),), Goal("<=", 1.15)),
        # In a ping-pong most messages arrive before UCX sleeps.
        Row(shm_name, "shm event", "us", shm, (sleep["posix"],)),
        Row(tcp_name, "tcp event", "us", tcp,
            (limit("tcp-latency", 8, ONE_WAY, 20_000, "raw sockets, blocking", "event"),),
            Goal("<=", 1.15)),
        Row(tcp_name, "tcp event", "us", tcp, (sleep["tcp"],)),
        Row(tcp_name, "tcp event", "us", tcp, (sockperf(),)),
        Row(tcp_name, "tcp event", "us", tcp, (qperf("tcp_lat", 8, ONE_WAY_MEAN),)),
        Row("tcp CPU per message, event", "tcp event", "ns", replace(tcp, figure=CPU),
            (qperf("tcp_lat", 8, CPU),)),
    ]


def adaptive(transport: str, size: int, iterations: dict[int, int]) -> list[Row]:
    """CPU time of both sides per message: adaptive beside the better of polling and event. Where
    the pause is short, the time of one way beside polling, too."""
    rows = []
    for think, count in iterations.items():
        def series(wait: str, figure: str) -> Series:
            run = cordma(transport, "send-lat", size, figure, count, wait=wait, think_us=think)
            return replace(run, label=f"cordma {wait}",
                           curve="drawn" if think in CURVES_US else "dropped")
        group = f"{transport} think {THINK_NAMES[think]}"
        pace = f"adaptive, think {THINK_NAMES[think]}"
        rows.append(Row(f"{transport} CPU per message, {pace}", group, "ns",
                        series("adaptive", CPU), (series("polling", CPU), series("event", CPU)),
                        Goal("<=", 2.0)))
        if think in SHORT_GAPS_US:
            rows.append(Row(f"{transport} one-way, {pace}", group, "us",
                            series("adaptive", HALF_ROUND_TRIP),
                            (series("polling", HALF_ROUND_TRIP),), Goal("<=", 1.1), gap_us=think))
    return rows


def idle(transport: str) -> list[Row]:
    """Connected, and nothing comes: percent of a core, of the side that uses more."""
    rows = []
    for wait, goal in (("event", Goal("<=", 1.0, on="value")),
                       ("adaptive", Goal("<=", 1.0, on="value")),
                       ("polling", Goal(">=", 95.0, on="value"))):
        silent = Series("cordma-perf", ("--transport", transport, "--test", "idle", "--wait", wait,
                                        "--duration", "2"),
                        "client.cpu_percent|server.cpu_percent", f"cordma {wait}")
        rows.append(Row(f"{transport} idle, {wait}: the busier side", f"{transport} idle", "%",
                        silent, (), goal))
    return rows


def waiting() -> list[Row]:
    return [*event_mode(),
            *(row for transport in ("shm", "tcp")
              for row in (*adaptive(transport, 8, THINK_ITERATIONS), *idle(transport)))]


def rdma_waiting() -> list[Row]:
    return [*adaptive("verbs", 64, RDMA_THINK_ITERATIONS), *idle("verbs")]
