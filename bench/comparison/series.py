"""The series that rows are made of: which program with which arguments, and the figure of it."""

from __future__ import annotations

from .model import Series

KIB = 1024
MIB = 1024 * KIB
SIZE_NAMES = {8: "8 B", 256: "256 B", KIB: "1 KiB", 4 * KIB: "4 KiB", 16 * KIB: "16 KiB",
              64 * KIB: "64 KiB", 256 * KIB: "256 KiB", MIB: "1 MiB", 10 * MIB: "10 MiB",
              100 * MIB: "100 MiB"}
WINDOW = 32  # ucx_perftest's own default for bandwidth tests

HALF_ROUND_TRIP = "half_round_trip_us.p50"  # in cordma-perf; equal to ONE_WAY of the others
ONE_WAY = "one_way_us.p50"
ONE_WAY_MEAN = "one_way_us.mean"  # of peers that report no other
BANDWIDTH = "bandwidth_GBps"
RATE = "rate_Mps"
CPU = "cpu_ns_per_message"
SECONDS = "2"  # duration for peers with such an option, in whole seconds


def cordma(transport: str, test: str, size: int, figure: str, iterations: int, *,
           wait: str = "polling", window: int | None = None, think_us: int | None = None) -> Series:
    arguments = ["--transport", transport, "--test", test, "--size", str(size), "--wait", wait]
    if window is not None:
        arguments += ["--outstanding", str(window)]
    if think_us is not None:
        arguments += ["--think-us", str(think_us)]
    return Series("cordma-perf", tuple(arguments), figure, f"cordma {test}",
                  iterations=iterations, warmup=max(1, iterations // 10))


def ucx(tls: str, test: str, size: int, figure: str, iterations: int, *,
        window: int | None = None, sleep: bool = False) -> Series:
    arguments = ["-t", test, "-s", str(size)]
    if window is not None:
        arguments += ["-O", str(window)]
    if sleep:
        arguments += ["-E", "sleep"]
    label = f"UCX {tls} {test}" + (" -E sleep" if sleep else "")
    return Series("ucx_perftest", tuple(arguments), figure, label, iterations=iterations,
                  warmup=max(1, iterations // 10), environment=(("UCX_TLS", tls),))


def limit(test: str, size: int, figure: str, iterations: int, label: str,
          wait: str | None = None, batches: int | None = None) -> Series:
    arguments = [test, "--size", str(size)] + (["--wait", wait] if wait else [])
    if batches is not None:
        arguments += ["--batches", str(batches)]
    return Series("bench-limits", tuple(arguments), figure, label, iterations=iterations)


def perftest(program: str, size: int, figure: str, iterations: int, *arguments: str) -> Series:
    return Series(program, ("-s", str(size), *arguments), figure,
                  " ".join([program, *arguments]), iterations=iterations)


def sockperf(*arguments: str) -> Series:
    """Over tcp, ping-pong. Its shortest message is 14 bytes."""
    label = " ".join(["sockperf 14 B", *arguments])
    return Series("sockperf", ("-m", "14", "-t", SECONDS, *arguments), ONE_WAY, label)


def qperf(test: str, size: int, figure: str) -> Series:
    """Blocking sockets."""
    label = f"qperf {test}" + (" (mean)" if figure == ONE_WAY_MEAN else "")
    return Series("qperf", ("-m", str(size), "-t", SECONDS, test), figure, label)


def fabric(provider: str, endpoint: str, size: int, iterations: int) -> Series:
    """libfabric, busy-polled. Debian 12 has the providers shm, tcp and net (tcp, reworked) for one
    host; `sockets` takes milliseconds a message there."""
    return Series("fi_pingpong", ("-p", provider, "-e", endpoint, "-S", str(size)), ONE_WAY_MEAN,
                  f"fi_pingpong {provider} (mean)", iterations=iterations)
