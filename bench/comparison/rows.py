"""The table: every row, what runs on both sides, and the goal.

Both sides move the same bytes with the same number outstanding, each in its own best form:
cordma over shm beside UCX over posix, cordma over tcp beside UCX over tcp. The iterations are
chosen so that one run takes about a second on an idle machine.
"""

from __future__ import annotations

from dataclasses import replace

from .model import Goal, Row, Series
from .series import (BANDWIDTH, HALF_ROUND_TRIP, KIB, MIB, ONE_WAY, RATE, SIZE_NAMES, WINDOW,
                     cordma, fabric, limit, perftest, qperf, sockperf, ucx)
from .sweep_rows import sweep
from .waiting_rows import rdma_waiting, waiting

RDMA_WINDOW = 64


def shm_small() -> list[Row]:
    latency = cordma("shm", "send-lat", 8, HALF_ROUND_TRIP, 1_000_000)
    write = cordma("shm", "write-lat", 8, HALF_ROUND_TRIP, 2_000_000)
    rate = cordma("shm", "send-rate", 8, RATE, 5_000_000)
    line = limit("cache-line", 8, ONE_WAY, 2_000_000, "cache line, two threads")
    name = "shm 8 B one-way, polling"
    return [
        Row(name, "shm latency", "us", latency, (ucx("posix", "tag_lat", 8, ONE_WAY, 1_000_000),),
            Goal("<=", 1.0)),
        Row(name, "shm latency", "us", latency, (line,), Goal("<=", 1.3)),
        Row(name, "shm latency", "us", latency, (fabric("shm", "rdm", 8, 500_000),)),
        Row("shm write 8 B visible at the target", "shm write latency", "us", write,
            (ucx("posix", "ucp_put_lat", 8, ONE_WAY, 2_000_000),), Goal("<=", 1.05)),
        Row("shm message rate 8 B", "shm rate", "M/s", rate,
            (ucx("posix", "tag_bw", 8, RATE, 5_000_000, window=WINDOW),), Goal(">=", 1.3),
            better="higher"),
    ]


def shm_bulk() -> list[Row]:
    rows = []
    iterations = {64 * KIB: 200_000, MIB: 10_000}
    for size, send_goal in ((64 * KIB, 1.3), (MIB, 1.5)):
        for verb, peer_test, copy in (("write", "ucp_put_bw", "copy-write"),
                                      ("read", "ucp_get", "copy-read")):
            ours = cordma("shm", f"{verb}-bw", size, BANDWIDTH, iterations[size], window=WINDOW)
            theirs = ucx("posix", peer_test, size, BANDWIDTH, iterations[size], window=WINDOW)
            floor = limit(copy, size, BANDWIDTH, iterations[size], "memcpy across processes")
            name = f"shm {verb} {SIZE_NAMES[size]}"
            for peer in (theirs, floor):
                rows.append(Row(name, name, "GB/s", ours, (peer,), Goal(">=", 0.95),
                                better="higher"))
        name = f"shm send/recv {SIZE_NAMES[size]}"
        ours = cordma("shm", "send-bw", size, BANDWIDTH, iterations[size] // 4, window=WINDOW)
        theirs = ucx("posix", "tag_bw", size, BANDWIDTH, iterations[size] // 4, window=WINDOW)
        rows.append(Row(name, name, "GB/s", ours, (theirs,), Goal(">=", send_goal),
                        better="higher"))
    return rows


def tcp_messages() -> list[Row]:
    latency = cordma("tcp", "send-lat", 8, HALF_ROUND_TRIP, 50_000)
    name = "tcp 8 B one-way, polling"
    rows = [
        Row(name, "tcp latency", "us", latency, (ucx("tcp", "tag_lat", 8, ONE_WAY, 50_000),),
            Goal("<=", 0.9)),
        Row(name, "tcp latency", "us", latency,
            (limit("tcp-latency", 8, ONE_WAY, 50_000, "raw sockets, busy-polled", "polling"),),
            Goal("<=", 1.1)),
        *(Row(name, "tcp latency", "us", latency, (peer,))
          for peer in (sockperf("--nonblocked"), fabric("tcp", "msg", 8, 50_000),
                       fabric("net", "msg", 8, 50_000))),
    ]
    iterations = {64 * KIB: 20_000, MIB: 4_000}
    for size in (64 * KIB, MIB):
        name = f"tcp send/recv {SIZE_NAMES[size]}"
        ours = cordma("tcp", "send-bw", size, BANDWIDTH, iterations[size], window=WINDOW)
        raw = limit("tcp-bandwidth", size, BANDWIDTH, iterations[size], "raw sockets, blocking",
                    "event")
        polled = limit("tcp-bandwidth", size, BANDWIDTH, iterations[size],
                       "raw sockets, busy-polled", "polling")
        theirs = ucx("tcp", "tag_bw", size, BANDWIDTH, iterations[size], window=WINDOW)
        rows.append(Row(name, name, "GB/s", ours, (raw,), Goal(">=", 0.9), better="higher"))
        rows.append(Row(name, name, "GB/s", ours, (polled,), better="higher"))
        rows.append(Row(name, name, "GB/s", ours, (theirs,), better="higher"))
        if size == 64 * KIB:
            rows.append(Row(name, name, "GB/s", ours, (qperf("tcp_bw", size, BANDWIDTH),),
                            better="higher"))
    return rows


def messages() -> list[Row]:
    """Tagged and active messages and streams, beside UCX's."""
    rows = []
    for test, peer, goal in (("tag-lat", "tag_lat", 1.0), ("am-lat", "ucp_am_lat", 0.9)):
        rows.append(Row(f"shm {test} 8 B, polling", f"shm {test}", "us",
                        cordma("shm", test, 8, HALF_ROUND_TRIP, 1_000_000),
                        (ucx("posix", peer, 8, ONE_WAY, 1_000_000),), Goal("<=", goal)))
    for over, tls, test, peer, size, iterations, goal in (
            ("shm", "posix", "tag-bw", "tag_bw", 64 * KIB, 50_000, 1.3),
            ("shm", "posix", "tag-bw", "tag_bw", MIB, 4_000, 1.5),
            ("shm", "posix", "stream-bw", "stream_bw", 64 * KIB, 50_000, 1.2),
            ("tcp", "tcp", "tag-bw", "tag_bw", 64 * KIB, 20_000, 2.0),
            ("tcp", "tcp", "tag-bw", "tag_bw", MIB, 2_000, 1.0),
            ("tcp", "tcp", "stream-bw", "stream_bw", 64 * KIB, 20_000, 1.4)):
        name = f"{over} {test} {SIZE_NAMES[size]}"
        rows.append(Row(name, name, "GB/s",
                        cordma(over, test, size, BANDWIDTH, iterations, window=WINDOW),
                        (ucx(tls, peer, size, BANDWIDTH, iterations, window=WINDOW),),
                        Goal(">=", goal), better="higher"))
    return rows


def tcp_remote_memory() -> list[Row]:
    size = 64 * KIB
    write = cordma("tcp", "write-bw", size, BANDWIDTH, 10_000, window=WINDOW)
    read_one = cordma("tcp", "read-bw", size, BANDWIDTH, 10_000, window=1)
    read_many = cordma("tcp", "read-bw", size, BANDWIDTH, 10_000, window=WINDOW)
    read_name = "tcp read 64 KiB"
    return [
        Row("tcp write 64 KiB", "tcp write 64 KiB", "GB/s", write,
            (ucx("tcp", "ucp_put_bw", size, BANDWIDTH, 10_000, window=WINDOW),), Goal(">=", 3.0),
            better="higher"),
        # ucp_get's default is one read outstanding, unlike ucp_put_bw's: the goal is for one on
        # both sides. With 32 outstanding UCX is some 20 times faster, so that row is shown as well.
        Row(f"{read_name}, one outstanding", read_name, "GB/s", read_one,
            (ucx("tcp", "ucp_get", size, BANDWIDTH, 1_000, window=1),), Goal(">=", 10.0),
            better="higher"),
        Row(f"{read_name}, {WINDOW} outstanding", read_name, "GB/s", read_many,
            (ucx("tcp", "ucp_get", size, BANDWIDTH, 10_000, window=WINDOW),), better="higher"),
    ]


def runtime_costs() -> list[Row]:
    await_ns = Series("bench-await", (), "await_suspended_ns", "await through the ready list")
    callback = Series("bench-await", (), "callback_ns", "plain callback loop")
    rows = [Row("await of a suspended operation, null transport", "await", "ns", await_ns,
                (callback,), Goal("<=", 30.0, on="value"))]
    for transport in ("shm", "tcp", "sim"):
        counted = Series("bench-allocations", ("--transport", transport),
                         "allocations_per_operation", "counted by operator new")
        name = f"{transport} allocations per operation, warm"
        rows.append(Row(name, name, "", counted, (), Goal("<=", 0.0, on="value")))
    pool, inventory = (Series("bench-buffers", ("--size", "64"), f"sizes.64.{source}", label)
                       for source, label in (("pool", "BufferPool"),
                                             ("inventory", "slices, free ones listed by hand")))
    rows.append(Row("a registered buffer, taken and given back", "buffers", "ns", pool,
                    (inventory,)))
    return rows


def instructions() -> list[Row]:
    """In user space, per operation of 64 B over verbs, less those of raw verbs. Few operations:
    each instruction takes as long as a hundred thousand others, and the figures hardly differ."""
    rows = []
    for operation in ("write", "send", "recv"):
        counted = Series("bench-verbs_instructions", ("--operations", "64", "--op", operation), "",
                         "counted by stepping")
        for shape, words in (("1", "one at a time"), ("64", "64 at a time"),
                             ("64_kept", "64 at a time, objects kept")):
            name = f"verbs {operation} 64 B, instructions above raw verbs, {words}"
            rows.append(Row(name, "verbs instructions", "",
                            replace(counted, figure=f"{operation}.{shape}.above"), (),
                            Goal("<=", 300.0, on="value")))
    return rows


# Path of bench-instructions, in words, and the limit of its instructions.
COUNTED_BESIDE_UCX = (
    ("shm.tag_round_trip_8", "shm tagged 8 B round trip", 1200),
    ("shm.am_round_trip_8", "shm active message 8 B round trip", 1600),
    ("shm.stream_4096", "shm stream 4 KiB round trip", None),
    ("shm.write_flush_64", "shm write 64 B and flush", 400),
    ("shm.read_64", "shm read 64 B", None),
    ("shm.fetch_add", "shm fetch-and-add", 390),
    ("shm.idle_turn", "shm pass with one silent connection", 150),
    ("tcp.tag_round_trip_8", "tcp tagged 8 B round trip", 4400),
    ("tcp.am_round_trip_8", "tcp active message 8 B round trip", 4700),
    ("tcp.write_flush_64", "tcp write 64 B and flush", None),
    ("tcp.read_64", "tcp read 64 B", 2400),
    ("tcp.fetch_add", "tcp fetch-and-add", 2050),
)


def instructions_beside_ucx() -> list[Row]:
    """In user space, of both sides. One round: a second one takes the same."""
    def series(program: str, label: str, path: str) -> Series:
        return Series(program, ("--rounds", "1", "--only", "^(shm|tcp)"),
                      f"instructions_per_operation.{path}.median", label)

    return [Row(f"{words}, instructions", "instructions", "",
                series("bench-instructions", "counted by stepping", path),
                (series("bench-ucx_instructions", "UCX", path),),
                Goal("<=", float(most), on="value") if most else None)
            for path, words, most in COUNTED_BESIDE_UCX]


def rdma_rows() -> list[Row]:
    """Over an RDMA device, beside perftest, which is raw verbs. Few iterations: the device may be
    the kernel's, in an emulated machine."""
    latency = {wait: cordma("verbs", "send-lat", 64, HALF_ROUND_TRIP, 1_000, wait=wait)
               for wait in ("polling", "event")}
    write_latency = cordma("verbs", "write-lat", 64, HALF_ROUND_TRIP, 1_000)
    write = cordma("verbs", "write-bw", 64 * KIB, BANDWIDTH, 500, window=RDMA_WINDOW)
    rate = cordma("verbs", "send-rate", 64, RATE, 5_000, window=RDMA_WINDOW)
    depth = ("-t", str(RDMA_WINDOW))
    return [
        Row("verbs 64 B one-way, polling", "verbs latency", "us", latency["polling"],
            (perftest("ib_send_lat", 64, ONE_WAY, 1_000),), Goal("<=", 1.1)),
        Row("verbs 64 B one-way, event", "verbs event", "us", latency["event"],
            (perftest("ib_send_lat", 64, ONE_WAY, 1_000, "-e"),), Goal("<=", 1.1)),
        Row("verbs write 64 B visible at the target", "verbs write latency", "us", write_latency,
            (perftest("ib_write_lat", 64, ONE_WAY, 1_000),)),
        Row("verbs write 64 KiB", "verbs write", "GB/s", write,
            (perftest("ib_write_bw", 64 * KIB, BANDWIDTH, 500, *depth),), Goal(">=", 0.95),
            better="higher"),
        Row("verbs message rate 64 B", "verbs rate", "M/s", rate,
            (perftest("ib_send_bw", 64, RATE, 5_000, *depth, "-r", str(2 * RDMA_WINDOW)),),
            Goal(">=", 0.9), better="higher"),
        *rdma_waiting(),
        *instructions(),
    ]


def all_rows() -> list[Row]:
    return [*shm_small(), *shm_bulk(), *tcp_messages(), *messages(), *tcp_remote_memory(),
            *waiting(), *sweep(), *runtime_costs(),
            *instructions_beside_ucx(), *instructions()]


def beside_rows(rows: list[Row]) -> list[Row]:
    """The same figures of cordma, each once, beside those of another build of it, without goals."""
    once: dict[Series, Row] = {}
    for row in rows:
        once.setdefault(row.ours, row)
    return [replace(row, peers=(replace(ours, beside=True, label="before"),), goal=None,
                    gap_us=None) for ours, row in once.items()]
