"""What the peers print, read into cordma-perf's keys and units.

`one_way_us` is the time of one way, bandwidths are in 1e9 bytes per second. Every reader raises
Failure, with the line that says most, where there is no result in what was printed.
"""

from __future__ import annotations

import re

from .processes import Failure, brief


def ucx(printed: str) -> dict:
    """The CSV that `-f -v` prints, in cordma-perf's keys. Warnings may stand around it.

    Its bandwidth is in MiB/s; latencies are already one way in the ping-pong tests.
    """
    header: list[str] | None = None
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "iterations":
            header = cells
        elif header is not None and len(cells) == len(header):
            try:
                values = dict(zip(header, map(float, cells)))
                median = next(value for key, value in values.items()
                              if key.endswith("percentile_lat"))
                return {"iterations": int(values["iterations"]),
                        "one_way_us": {"mean": values["overall_lat"], "p50": median},
                        "bandwidth_GBps": values["overall_bw"] * 1024 * 1024 / 1e9,
                        "rate_Mps": values["overall_mr"] / 1e6,
                        "csv": values}
            except (ValueError, KeyError, StopIteration):
                continue
    raise Failure(f"ucx_perftest printed no result line: {brief(printed)}")


def perftest(printed: str, name: str) -> dict:
    """The table of ib_*_lat or ib_*_bw, in cordma-perf's keys. Its MB are 2^20 bytes."""
    keys: list[str] | None = None
    for line in printed.splitlines():
        words = line.split()
        if words[:1] == ["#bytes"]:
            keys = line.replace("BW peak", "BW_peak").replace("BW average", "BW_average").split()
        elif keys is not None and len(words) >= 5:
            try:
                values = dict(zip(keys, map(float, words)))
            except ValueError:
                continue
            unit = {key.split("[")[0]: value for key, value in values.items()}
            figures: dict = {"iterations": int(unit["#iterations"]), "table": values}
            if "t_typical" in unit:
                figures["one_way_us"] = {"mean": unit["t_avg"], "p50": unit["t_typical"]}
            else:
                figures["bandwidth_GBps"] = unit["BW_average"] * 1024 * 1024 / 1e9
                figures["rate_Mps"] = unit["MsgRate"]
            return figures
    raise Failure(f"{name} printed no table: {brief(printed)}")


def sockperf(printed: str) -> dict:
    """sockperf ping-pong with --full-rtt: percentiles of the round trip, halved here. Without that
    option sockperf prints halves itself, under the same headings: then it says "Latency", not
    "Round trip", and that is refused."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    mean = re.search(r"Summary: Round trip is ([\d.]+) usec", plain)
    ranks = {float(rank): float(value)
             for rank, value in re.findall(r"percentile ([\d.]+) = +([\d.]+)", plain)}
    total = re.search(r"Total (\d+) observations", plain)
    if not mean or not total or 50.0 not in ranks:
        raise Failure(f"sockperf printed no round trip: {brief(plain)}")
    names = {50.0: "p50", 90.0: "p90", 99.0: "p99", 99.9: "p999"}
    return {"iterations": int(total[1]),
            "one_way_us": {"mean": float(mean[1]) / 2,
                           **{name: ranks[rank] / 2 for rank, name in names.items()
                              if rank in ranks}},
            "round_trip_us": {"mean": float(mean[1]), **{f"{k:g}": v for k, v in ranks.items()}}}


def qperf(printed: str) -> dict:
    """qperf's tcp_lat or tcp_bw with `-vv -uu`: nanoseconds and bytes per second.

    Its latency is one way and a mean, its msg_rate counts both ways. Its CPU time is the whole
    host's, from /proc/stat: with both sides on one host either side's is that of both.
    """
    values = {key: float(value.replace(",", "")) for key, value in
              re.findall(r"^ +(\w+) += +([\d.,]+)", printed, re.MULTILINE)}
    figures: dict = {"table": values}
    if "latency" in values:
        figures["one_way_us"] = {"mean": values["latency"] / 1e3}
    elif "bw" in values:
        figures["bandwidth_GBps"] = values["bw"] / 1e9
    else:
        raise Failure(f"qperf printed no result: {brief(printed)}")
    cpu_ns = values.get("loc_cpu_time", values.get("send_cpu_time"))
    real_ns = values.get("loc_real_time", values.get("send_real_time"))
    rate = values.get("msg_rate")
    if rate:
        figures["rate_Mps"] = rate / 1e6
        if cpu_ns is not None and real_ns:
            figures["cpu_ns_per_message"] = cpu_ns / (rate * real_ns / 1e9)
    return figures


def fabric(printed: str) -> dict:
    """fi_pingpong's table of one size. A transfer is one way: two of them are a round trip."""
    keys: list[str] | None = None
    for line in printed.splitlines():
        words = line.split()
        if words[:1] == ["bytes"]:
            keys = words
        elif keys is not None and len(words) == len(keys):
            values = dict(zip(keys, words))
            try:
                return {"one_way_us": {"mean": float(values["usec/xfer"])},
                        "rate_Mps": float(values["Mxfers/sec"]), "table": values}
            except (KeyError, ValueError):
                continue
    raise Failure(f"fi_pingpong printed no table: {brief(printed)}")
