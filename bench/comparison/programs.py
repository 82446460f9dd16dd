"""Runs one repetition of one series and reads its figure.

Nothing here raises for what a program does: a program that is missing, fails, hangs or prints
nonsense gives a Run with a reason and no value.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from .model import Run, Series

TIME_LIMIT_S = 300.0  # one run; most take a second, stepping on a busy machine minutes
LISTEN_LIMIT_S = 10.0  # for ucx_perftest's server to open its port
LEAVE_LIMIT_S = 5.0  # for ucx_perftest's server to end after its client
GID_INDEX = 1  # RoCE v2 over IPv4, on most devices and in the virtual machine
PLACES = ("bench", "", "bin", "apps")  # where a build folder may keep its programs


class Failure(Exception):
    """Why a run has no figure; the text goes into the table."""


class Programs:
    """Where the programs are and on which CPUs they run."""

    def __init__(self, build: Path | None, cpus: tuple[int, int], divisor: int = 1):
        self.build = build
        self.cpus = cpus
        self.divisor = divisor  # iterations are divided by it: --quick

    def find(self, name: str) -> str | None:
        if self.build is not None:
            for place in PLACES:
                candidate = self.build / place / name
                if candidate.is_file() and os.access(candidate, os.X_OK):
                    return str(candidate)
        return shutil.which(name)

    def run(self, series: Series, repetition: int, before: Run | None = None) -> Run:
        """Runs the program and reads the figure. With `before`, a run of the same command, only
        reads the figure from what that one printed."""
        arguments = [*series.arguments, *self._counts(series)]
        run = Run(series, repetition, self.command(series))
        if before is not None:
            run.error, run.missing, run.raw = before.error, before.missing, before.raw
            if run.raw is not None:
                read_figure(run)
            return run
        path = self.find(series.program)
        if path is None:
            run.error = f"{series.program} not found"
            run.missing = True
            return run
        start = time.monotonic()
        try:
            if series.program == "ucx_perftest":
                run.raw = self._ucx(path, arguments, dict(series.environment))
            elif series.program.startswith("ib_"):
                run.raw = self._perftest(path, arguments)
            else:
                run.raw = self._json_program(path, series.program, arguments)
            read_figure(run)
        except Failure as failure:
            run.error = str(failure)
        run.seconds = time.monotonic() - start
        return run

    def _counts(self, series: Series) -> list[str]:
        """The options for iterations and warm-up, as each program spells them."""
        if series.iterations is None:
            return []
        iterations = max(20, series.iterations // self.divisor)
        if series.program == "ucx_perftest":
            # Its default warm-up, 10,000 iterations, takes many seconds in the slow tests.
            return ["-n", str(iterations), "-w", str(max(1, iterations // 10))]
        if series.program.startswith("ib_"):
            return ["-n", str(iterations)]
        counts = ["--iterations", str(iterations)]
        if series.warmup is not None:
            counts += ["--warmup", str(max(1, series.warmup // self.divisor))]
        return counts

    def command(self, series: Series) -> str:
        """For people, and to tell whether two series run the same: no paths, CPUs or ports."""
        arguments = [*series.arguments, *self._counts(series)]
        words = [f"{key}={value}" for key, value in series.environment]
        return shlex.join([*words, series.program, *arguments])

    def _json_program(self, path: str, name: str, arguments: list[str]) -> object:
        command = [path, *arguments]
        if name == "cordma-perf":
            command.append("--local")
        if name in ("cordma-perf", "bench-limits"):
            command += ["--cpu", f"{self.cpus[0]},{self.cpus[1]}"]
        command += ["--json", "-"]
        printed = finish(start(command), name)
        try:
            begin = printed.index("{")
            answer, _ = json.JSONDecoder().raw_decode(printed, begin)
        except ValueError:
            raise Failure(f"{name} printed no JSON object: {brief(printed)}") from None
        if isinstance(answer, dict) and answer.get("valid") is False:
            raise Failure(f"{name} says that its run is not valid")
        return answer

    def _ucx(self, path: str, arguments: list[str], environment: dict[str, str]) -> object:
        """Server on the first CPU, client on the second; the client's CSV line is the result."""
        port = free_port()
        server = start([path, "-p", str(port), "-c", str(self.cpus[0])], environment)
        client = None
        try:
            wait_until_listening(port, server)
            client = start([path, "127.0.0.1", "-p", str(port), "-c", str(self.cpus[1]), "-f",
                            "-v", *arguments], environment)
            figures = ucx_figures(finish(client, "ucx_perftest"))
            leave(server)
            return figures
        finally:
            for process in (client, server):
                if process is not None:
                    stop(process)

    def _perftest(self, path: str, arguments: list[str]) -> object:
        """perftest's programs: the same command on both sides, the client's with the address of the
        device; its table is the result."""
        name = Path(path).name
        device, address = rdma_device()
        port = free_port()
        command = [path, "-d", device, "-x", str(GID_INDEX), "-F", "-p", str(port), *arguments]
        server = start(["taskset", "-c", str(self.cpus[0]), *command])
        client = None
        try:
            wait_until_listening(port, server, name)
            client = start(["taskset", "-c", str(self.cpus[1]), *command, address])
            figures = perftest_figures(finish(client, name), name)
            leave(server)
            return figures
        finally:
            for process in (client, server):
                if process is not None:
                    stop(process)


def rdma_device() -> tuple[str, str]:
    """The RDMA device to measure and an address of this host on its network."""
    device = os.environ.get("RDMA_DEVICE")
    address = os.environ.get("RDMA_HOST_SELF")
    if not device or not address:
        raise Failure("no RDMA device is named: set RDMA_DEVICE and RDMA_HOST_SELF")
    return device, address


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


def wait_until_listening(port: int, server: subprocess.Popen, name: str = "ucx_perftest") -> None:
    limit = time.monotonic() + LISTEN_LIMIT_S
    while not listening(port):
        if server.poll() is not None:
            raise Failure(f"{name} server exited with "
                          f"{server.returncode}: {brief(''.join(server.communicate()))}")
        if time.monotonic() > limit:
            raise Failure(f"{name} server did not listen within {LISTEN_LIMIT_S:g} s")
        time.sleep(0.005)


def ucx_figures(printed: str) -> dict:
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


def perftest_figures(printed: str, name: str) -> dict:
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


def read_figure(run: Run) -> None:
    try:
        run.value = figure_of(run.raw, run.series.figure)
    except Failure as failure:
        run.error = str(failure)


def figure_of(answer: object, path: str) -> float:
    """The number at a dotted path. An object with client and server stands for their sum."""
    at = answer
    for key in path.split("."):
        if not isinstance(at, dict) or key not in at:
            raise Failure(f"no {path} in the JSON")
        at = at[key]
    if isinstance(at, dict) and {"client", "server"} <= at.keys():
        at = at["client"] + at["server"]
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        raise Failure(f"{path} in the JSON is no number")
    return float(at)


def brief(printed: str) -> str:
    """The line that says most: the last one with an error in it, else the last one."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if not lines:
        return "it printed nothing"
    telling = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return (telling or lines)[-1][:160]
