"""Bandwidth over size: cordma beside what the machine can do, from 256 B to 100 MiB. Each size is a
row without a goal; all of them together are drawn as lines."""

from __future__ import annotations

from .model import Row
from .series import BANDWIDTH, KIB, MIB, SIZE_NAMES, WINDOW, cordma, limit

SIZES = (256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 10 * MIB, 100 * MIB)
SHM_BYTES, TCP_BYTES = 4_000 * MIB, 500 * MIB  # approximate bytes moved by one run
MOST_STEPS = {"shm": 2_000_000, "tcp": 200_000}
OUTSTANDING_BYTES = 80 * MIB  # limit of bytes in flight, but always two messages


def iterations(transport: str, size: int) -> int:
    return max(20, min(MOST_STEPS[transport],
                       (SHM_BYTES if transport == "shm" else TCP_BYTES) // size))


def sweep() -> list[Row]:
    rows = []
    for transport, verb, test, floor, words, wait in (
            ("shm", "write", "write-bw", "copy-write", "memcpy across processes", None),
            ("tcp", "send", "send-bw", "tcp-bandwidth", "raw sockets, blocking", "event")):
        for size in SIZES:
            steps = iterations(transport, size)
            window = max(2, min(WINDOW, OUTSTANDING_BYTES // size))
            name = f"{transport} {verb} {SIZE_NAMES[size]}, {window} outstanding"
            rows.append(Row(name, f"sweep {name}", "GB/s",
                            cordma(transport, test, size, BANDWIDTH, steps, window=window),
                            (limit(floor, size, BANDWIDTH, steps, words, wait,
                                   batches=min(100, steps)),),
                            better="higher", part_of="sweep"))
    return rows
