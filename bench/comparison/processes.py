"""Starting, waiting for and ending programs; each gets a time limit and none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

TIME_LIMIT_S = 300.0  # one run; most take a second, stepping on a busy machine minutes
LISTEN_LIMIT_S = 10.0  # for a peer's server to open its port
LEAVE_LIMIT_S = 5.0  # for a peer's server to end after its client


class Failure(Exception):
    """Why a run has no figure; the text goes into the table."""


def start(command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen:
    """In a session of its own, so that it can be ended with its children."""
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True, errors="replace",
                                env={**os.environ, **(environment or {})}, start_new_session=True)
    except OSError as problem:
        raise Failure(f"could not start {Path(command[0]).name}: {problem.strerror}") from None


def leave(process: subprocess.Popen) -> None:
    """Gives a process that has done its work the time to clean up after itself."""
    try:
        process.communicate(timeout=LEAVE_LIMIT_S)
    except subprocess.TimeoutExpired:
        pass


def stop(process: subprocess.Popen) -> None:
    """Ends a process of ours, and the children of its session, unless it has ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finish(process: subprocess.Popen, name: str) -> str:
    """What the process printed; Failure when it fails or takes too long."""
    try:
        printed, complaints = process.communicate(timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failure(f"{name} did not finish within {TIME_LIMIT_S:g} s") from None
    except BaseException:
        stop(process)
        raise
    if process.returncode != 0:
        how = (f"was killed by signal {-process.returncode}" if process.returncode < 0
               else f"exited with {process.returncode}")
        raise Failure(f"{name} {how}: {brief(printed + complaints)}")
    return printed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port: int) -> bool:
    """Read from /proc: a connection to try would be taken for the client."""
    ending = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[1].endswith(ending) and words[3] == "0A":
                return True
    return False


def wait_until_listening(port: int, server: subprocess.Popen, name: str) -> None:
    limit = time.monotonic() + LISTEN_LIMIT_S
    while not listening(port):
        if server.poll() is not None:
            raise Failure(f"{name} server exited with "
                          f"{server.returncode}: {brief(''.join(server.communicate()))}")
        if time.monotonic() > limit:
            raise Failure(f"{name} server did not listen within {LISTEN_LIMIT_S:g} s")
        time.sleep(0.005)


def brief(printed: str) -> str:
    """The line that says most: the last one with an error in it, else the last one."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if not lines:
        return "it printed nothing"
    telling = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return (telling or lines)[-1][:160]
