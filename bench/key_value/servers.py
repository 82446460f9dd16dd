"""The servers that kv.py compares, each alone on its cores, and what they use of them."""
import json
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import time

from . import figures


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_ns(pid):
    """CPU time of all threads of a process, those that have ended included: its clock, as clock_getcpuclockid() has it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def children_cpu_ns():
    """Of those that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def on_cpus(cpus, command):
    return ["taskset", "-c", cpus, *map(str, command)] if cpus else [str(word) for word in command]


class Server:
    """Started by start(), ended by stop(), as often as one likes; what it holds is gone then."""

    name = "?"

    def __init__(self, cpus, programs):
        self.cpus, self.programs = cpus, programs
        self.process = self.folder = None
        self.port = 0

    def command(self):
        raise NotImplementedError

    def start(self):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="cordma-kv-bench-")
        log = open(pathlib.Path(self.folder) / "log", "w")
        self.process = subprocess.Popen(on_cpus(self.cpus, self.command()), stdout=log, stderr=subprocess.STDOUT)
        log.close()
        deadline = time.monotonic() + 20
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (pathlib.Path(self.folder) / "log").read_text()
                self.stop()
                raise RuntimeError(f"{self.name} does not answer: {said[-1000:]}")
            time.sleep(0.05)
        return self

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as s:
                s.sendall(b"PING\r\n")
                return s.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.process = self.folder = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def cpu_ns(self):
        return cpu_ns(self.pid)

    def resp(self):
        return ["--resp", f"127.0.0.1:{self.port}"]

    def info(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            s.sendall(b"INFO memory\r\n")
            said = b""
            while b"\r\n" not in said or len(said) < int(said[1:said.index(b"\r\n")]) + said.index(b"\r\n") + 4:
                said += s.recv(65536)
        return figures.info(said.decode())

    def used_memory(self):
        return int(self.info()["used_memory"])

    def resident(self):
        """Bytes of memory that are there, the kernel's for its sockets not among them."""
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()


class Redis(Server):
    name = "redis-server"

    def command(self):
        return ["redis-server", "--bind", "127.0.0.1", "--port", self.port, "--appendonly", "no", "--save", "", "--dir",
                self.folder]


class CordmaKv(Server):
    name = "cordma-kv"

    def __init__(self, cpus, programs, wait="event", io="auto", native_host="127.0.0.1", native=True):
        super().__init__(cpus, programs)
        self.wait, self.io, self.native_host = wait, io, native_host
        self.native_port = 0
        self.has_native = native

    def command(self):
        self.native_port = free_port() if self.has_native else 0
        bound = dict.fromkeys([self.native_host, "127.0.0.1"])  # the first is for the native port
        return [self.programs / "cordma-kv", "--bind", *bound, "--protected-mode", "no", "--port", self.port, "--native-port",
                self.native_port, "--wait", self.wait, "--io", self.io, "--appendonly", "no", "--save", "", "--dir", self.folder]

    def native(self, transport="shm"):
        return ["--server", f"{self.native_host}:{self.native_port}", "--transport", transport]


class Client:
    """Programs that ask a server, on the cores that are theirs."""

    def __init__(self, cpus, programs):
        self.cpus, self.programs = cpus, programs

    def bench(self, server, to, *options):
        """What `cordma-kv-cli bench` measured, as its JSON has it."""
        command = [self.programs / "cordma-kv-cli", *to, "--json", "bench", "--server-pid", server.pid, *options]
        done = subprocess.run(on_cpus(self.cpus, command), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def redis_benchmark(self, server, test, requests, pipeline, threads):
        """Rate and percentiles, the server's CPU time per request, and the shares of a core of both sides."""
        command = ["redis-benchmark", "-h", "127.0.0.1", "-p", server.port, "-t", test, "-n", requests, "-c", 50, "-d", 64,
                   "-r", 10000, "-P", pipeline, "--csv"]
        if threads > 1:
            command += ["--threads", threads]
        before, of_clients, began = server.cpu_ns(), children_cpu_ns(), time.monotonic_ns()
        process = subprocess.Popen(on_cpus(self.cpus, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said, complaints = process.communicate()
        elapsed, spent = time.monotonic_ns() - began, server.cpu_ns() - before
        if process.returncode != 0:
            raise RuntimeError(f"redis-benchmark ended with {process.returncode}: {complaints}")
        found = figures.redis_benchmark(said)[test.upper()]
        # Relative to the time of the requests, not to the time in which the program started.
        busy_ns = min(requests / found["rate_hz"] * 1e9, elapsed)
        found.update(cpu_ns=spent / requests, server_share=min(spent / busy_ns, 1.0),
                     client_share=(children_cpu_ns() - of_clients) / busy_ns)
        return found
