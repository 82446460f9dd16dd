"""How the two sides of each peer are started, both on this host, and who reads what it prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from . import peer_output
from .processes import (Failure, finish, free_port, leave, start, stop, wait_until_listening)

HOST = "127.0.0.1"
GID_INDEX = 1  # RoCE v2 over IPv4, on most devices and in the virtual machine


@dataclass(frozen=True)
class Sides:
    """What both commands of a peer are made from."""

    path: str
    arguments: tuple[str, ...]
    port: int
    cpus: tuple[int, int]

    def on_server_cpu(self, *command: str) -> list[str]:
        return ["taskset", "-c", str(self.cpus[0]), *command]

    def on_client_cpu(self, *command: str) -> list[str]:
        return ["taskset", "-c", str(self.cpus[1]), *command]


Commands = tuple[list[str], list[str]]  # the server's and the client's


def ucx(sides: Sides) -> Commands:
    """It pins itself; the client's CSV line is the result."""
    server = [sides.path, "-p", str(sides.port), "-c", str(sides.cpus[0])]
    return server, [sides.path, HOST, "-p", str(sides.port), "-c", str(sides.cpus[1]), "-f", "-v",
                    *sides.arguments]


def perftest(sides: Sides) -> Commands:
    """The same command on both sides, the client's with the address of the device."""
    device, address = rdma_device()
    command = [sides.path, "-d", device, "-x", str(GID_INDEX), "-F", "-p", str(sides.port),
               *sides.arguments]
    return sides.on_server_cpu(*command), sides.on_client_cpu(*command, address)


def rdma_device() -> tuple[str, str]:
    """The RDMA device to measure and an address of this host on its network."""
    device = os.environ.get("RDMA_DEVICE")
    address = os.environ.get("RDMA_HOST_SELF")
    if not device or not address:
        raise Failure("no RDMA device is named: set RDMA_DEVICE and RDMA_HOST_SELF")
    return device, address


def sockperf(sides: Sides) -> Commands:
    """The way of waiting is of both sides, size and duration of the client alone."""
    both = ["--tcp", "-i", HOST, "-p", str(sides.port)]
    waiting = [word for word in sides.arguments if word == "--nonblocked"]
    return (sides.on_server_cpu(sides.path, "server", *both, *waiting),
            sides.on_client_cpu(sides.path, "ping-pong", *both, "--full-rtt", *sides.arguments))


def qperf(sides: Sides) -> Commands:
    """The test is the last argument. Its data goes over a second port; with -t of less than a
    second, or with -n, version 0.4.11 never answers."""
    return (sides.on_server_cpu(sides.path, "-lp", str(sides.port)),
            sides.on_client_cpu(sides.path, HOST, "-lp", str(sides.port), "-ip", str(free_port()),
                                "-vv", "-uu", "-e", "6", *sides.arguments))


def fabric(sides: Sides) -> Commands:
    return (sides.on_server_cpu(sides.path, "-B", str(sides.port), *sides.arguments),
            sides.on_client_cpu(sides.path, "-P", str(sides.port), *sides.arguments, HOST))


@dataclass(frozen=True)
class Peer:
    commands: Callable[[Sides], Commands]
    figures: Callable[[str], dict]  # from the output of the client
    count: str | None = None  # its option for the number of iterations
    warmup: str | None = None
    server_ends: str = "by itself"  # or "when killed"


PERFTEST = {name: Peer(perftest, lambda printed, name=name: peer_output.perftest(printed, name),
                       count="-n")
            for name in ("ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_write_bw")}
PEERS = {
    # ucx_perftest's default warm-up, 10,000 iterations, takes many seconds in the slow tests.
    "ucx_perftest": Peer(ucx, peer_output.ucx, count="-n", warmup="-w"),
    "sockperf": Peer(sockperf, peer_output.sockperf, server_ends="when killed"),
    "qperf": Peer(qperf, peer_output.qperf, server_ends="when killed"),
    "fi_pingpong": Peer(fabric, peer_output.fabric, count="-I"),
    **PERFTEST,
}


def run(name: str, path: str, arguments: list[str], cpus: tuple[int, int],
        environment: dict[str, str]) -> dict:
    """Server first, the client once it listens; both are gone afterwards."""
    peer = PEERS[name]
    port = free_port()
    server_command, client_command = peer.commands(Sides(path, tuple(arguments), port, cpus))
    server = start(server_command, environment)
    client = None
    try:
        wait_until_listening(port, server, name)
        client = start(client_command, environment)
        figures = peer.figures(finish(client, name))
        if peer.server_ends == "by itself":
            leave(server)
        return figures
    finally:
        for process in (client, server):
            if process is not None:
                stop(process)
