"""What kv.py measures: each part takes a Ground and gives rows."""
import contextlib
import os
import resource
import socket
import statistics
import time

from . import costs, figures
from .figures import Row
from .servers import CordmaKv, Redis

MIXES = ("a", "b", "c", "d", "f")


class Ground:
    """Under which conditions all parts are measured."""

    def __init__(self, programs, server_cpus, client, repetitions, seconds, records, memory_records, requests):
        self.programs, self.server_cpus, self.client = programs, server_cpus, client
        self.repetitions, self.seconds, self.records = repetitions, seconds, records
        self.memory_records, self.requests = memory_records, requests

    def redis(self):
        return Redis(self.server_cpus, self.programs)

    def cordma(self, wait="event", io="auto", native_host="127.0.0.1"):
        return CordmaKv(self.server_cpus, self.programs, wait, io, native_host)

    def cordma_alone(self):
        """Without native clients, each of which may take several files."""
        return CordmaKv(self.server_cpus, self.programs, native=False)

    def bench(self, server, to, workload, *options):
        """The records are there: load() put them there."""
        return self.client.bench(server, to, "--workload", workload, "--no-load", "--records", self.records, "--duration",
                                 self.seconds, "--warm-up", min(self.seconds / 4, 1), *options)

    def load(self, server, to, records=None, value_bytes=64):
        return self.client.bench(server, to, "--workload", "load", "--records", records or self.records, "--value-bytes",
                                 value_bytes)


def interleaved(repetitions, **series):
    """Each series once, again and again: {name: [what each call gave]}."""
    found = {name: [] for name in series}
    for _ in range(repetitions):
        for name, once in series.items():
            found[name].append(once())
    return found


def values(runs, *path):
    """The number at this path of each run."""
    found = []
    for run in runs:
        for name in path:
            run = run[name]
        found.append(run)
    return found


def redis_clients(g):
    """redis-benchmark on redis-server and on cordma-kv that sleeps or spins first, one after the other, never at once."""
    rows = []
    with g.redis() as redis, g.cordma() as event, g.cordma("adaptive") as adaptive:
        for pipeline, goal in ((1, 1.3), (16, 2.0)):
            for threads in (1, 2):
                # With several threads redis-benchmark measures the time in quarters of a second.
                requests = g.requests * (1 if pipeline == 1 else 5) * (1 if threads == 1 else 4)
                for test in ("set", "get"):
                    runs = interleaved(
                        g.repetitions,
                        redis=lambda: g.client.redis_benchmark(redis, test, requests, pipeline, threads),
                        event=lambda: g.client.redis_benchmark(event, test, requests, pipeline, threads),
                        adaptive=lambda: g.client.redis_benchmark(adaptive, test, requests, pipeline, threads))
                    for wait in ("event", "adaptive"):
                        rows += redis_rows(test, pipeline, threads, wait, goal, runs)
    return rows


def busy(name, runs):
    """How much of a core both sides took, and which has no more to give."""
    server, client = (statistics.median(values(runs, side)) for side in ("server_share", "client_share"))
    return f"{name} {server:.0%}, its client {client:.0%}: {figures.saturated(server, client)} saturated"


def redis_rows(test, pipeline, threads, wait, goal, runs):
    what = f"redis-benchmark {test.upper()} -c 50 -d 64 -P {pipeline}" + (f" --threads {threads}" if threads > 1 else "") + \
           f", --wait {wait}"
    note = "; ".join(busy(name, runs[key]) for key, name in ((wait, "cordma-kv"), ("redis", "redis-server")))
    return [Row(what, "/s", values(runs[wait], "rate_hz"), "redis-server", values(runs["redis"], "rate_hz"), (">=", goal, "x"),
                note),
            Row(what + ", p99", "us", values(runs[wait], "p99_us"), "redis-server", values(runs["redis"], "p99_us")),
            Row(what + ", server CPU per request", "ns", values(runs[wait], "cpu_ns"), "redis-server",
                values(runs["redis"], "cpu_ns"), ("<=", 0.7, "x"))]


def memory(g):
    """used_memory of as many records; that of a server which was just started taken off."""
    used = {}
    for name, server in (("redis", g.redis()), ("kv", g.cordma())):
        with server:
            before = server.used_memory()
            g.load(server, server.resp(), g.memory_records)
            used[name] = [figures.bytes_per_record(before, server.used_memory(), g.memory_records)]
    what = f"memory per key of 16 B and value of 64 B, {g.memory_records:,} of them"
    return [Row(what, "B", used["kv"], "redis-server", used["redis"], ("<=", 0.8, "x"))]


IDLE_SECONDS = 5


def idle(server, many):
    """What so many clients that have asked once and are silent now take: bytes of memory for each, and CPU time in all."""
    with server, contextlib.ExitStack() as clients:
        before = server.resident()
        for _ in range(many):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            client.sendall(b"PING\r\n")
            if client.recv(64) != b"+PONG\r\n":
                raise RuntimeError(f"{server.name} refuses one of {many} clients")
        each, spent = (server.resident() - before) / many, server.cpu_ns()
        time.sleep(IDLE_SECONDS)
        return {"bytes": each, "cpu_share": (server.cpu_ns() - spent) / (IDLE_SECONDS * 1e9)}


def more_files(wanted):
    """As many as wanted can be open here and in what is started from here, or a few less than the limit."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, limit - 200)


def idle_clients(g):
    """10,000 of them, by both doors, beside redis-server; fewer where fewer files can be open."""
    many = more_files(9_900)  # maxclients is 10,000
    runs = interleaved(g.repetitions, redis=lambda: idle(g.redis(), many), uring=lambda: idle(g.cordma(), many),
                       asio=lambda: idle(g.cordma(io="asio"), many))
    rows = []
    for key, name in (("uring", "io_uring where there is it"), ("asio", "Asio")):
        note = f"CPU {statistics.median(values(runs[key], 'cpu_share')):.2%} of a core; redis-server " \
               f"{statistics.median(values(runs['redis'], 'cpu_share')):.2%}"
        rows.append(Row(f"memory of each of {many:,} idle clients, sockets by {name}", "B", values(runs[key], "bytes"),
                        "redis-server", values(runs["redis"], "bytes"), note=note))
    return rows


def native_polling(g):
    """The native protocol over shm, both sides polling: what it can do."""
    with g.cordma("polling") as kv:
        to = [*kv.native("shm"), "--wait", "polling"]
        g.load(kv, to)
        runs = interleaved(
            g.repetitions,
            one_sided=lambda: g.bench(kv, to, "get"),
            reads=lambda: g.bench(kv, to, "get", "--batch", 64),
            gets=lambda: g.bench(kv, [*to, "--asked"], "get", "--batch", 64, "--in-flight", 4),
            sets=lambda: g.bench(kv, to, "set", "--batch", 64, "--in-flight", 4),
            get=lambda: g.bench(kv, [*to, "--asked"], "get"),
            set=lambda: g.bench(kv, [*to, "--asked"], "set"))
    one = runs["one_sided"]
    share = sum(values(one, "paths", "one_sided")) / max(sum(values(one, "operations")), 1)
    return [Row("native shm, one-sided GET", "/s", values(one, "rate_hz"), goal=(">=", 1.5e6, ""),
                note=f"{share:.1%} of them without asking"),
            Row("native shm, one-sided GET, p50", "us", values(one, "latency_us", "all", "p50"), goal=("<=", 1.0, "")),
            Row("native shm, one-sided GET, p99", "us", values(one, "latency_us", "all", "p99")),
            Row("native shm, one-sided GET, 64 at a time", "/s", values(runs["reads"], "rate_hz"), goal=(">=", 1.5e6, "")),
            Row("native shm, GET by request, 64 at a time", "/s", values(runs["gets"], "rate_hz"), goal=(">=", 1e6, "")),
            Row("native shm, SET by request, 64 at a time", "/s", values(runs["sets"], "rate_hz"), goal=(">=", 1e6, "")),
            Row("native shm, one GET by request, p50", "us", values(runs["get"], "latency_us", "all", "p50"),
                goal=("<=", 3.0, "")),
            Row("native shm, one SET by request, p50", "us", values(runs["set"], "latency_us", "all", "p50"),
                goal=("<=", 3.0, ""))]


def both_doors(g):
    """The same engine by both doors, one client, as servers wait by default; with what it costs both sides."""
    rows = []
    for value_bytes in (64, 4096):
        size = ("--value-bytes", value_bytes)
        with g.cordma() as kv:
            g.load(kv, kv.resp(), value_bytes=value_bytes)
            for workload, batch in (("get", 1), ("set", 1), ("get", 16), ("set", 16)):
                more = (*size, "--batch", batch)
                ways = {"resp": kv.resp(), "shm": kv.native("shm"), "tcp": kv.native("tcp")}
                runs = interleaved(g.repetitions, **{name: (lambda to=to: g.bench(kv, to, workload, *more))
                                                     for name, to in ways.items()})
                what = f"{workload.upper()} of {value_bytes} B" + (f", {batch} at a time" if batch > 1 else "")
                for way in ("shm", "tcp"):
                    rows += [Row(f"{what}, native {way}", "/s", values(runs[way], "rate_hz"), "RESP",
                                 values(runs["resp"], "rate_hz")),
                             Row(f"{what}, native {way}, p50", "us", values(runs[way], "latency_us", "all", "p50"), "RESP",
                                 values(runs["resp"], "latency_us", "all", "p50")),
                             Row(f"{what}, native {way}, CPU of both sides", "ns", both_sides(runs[way]), "RESP",
                                 both_sides(runs["resp"]))]
    return rows


def verbs(g):
    """The native protocol over verbs beside tcp, where there is an RDMA device: in the virtual machine of tests/soft-roce
    its address is in RDMA_HOST_SELF."""
    host = os.environ.get("RDMA_HOST_SELF")
    if not host:
        return []
    rows = []
    with g.cordma("adaptive", native_host=host) as kv:
        g.load(kv, kv.resp())
        for workload, batch in (("get", 1), ("get", 16), ("set", 1), ("set", 16)):
            runs = interleaved(g.repetitions, **{way: (lambda way=way: g.bench(kv, kv.native(way), workload, "--batch", batch))
                                                 for way in ("verbs", "tcp")})
            what = f"{workload.upper()} of 64 B" + (f", {batch} at a time" if batch > 1 else "") + ", native verbs"
            rows += [Row(what, "/s", values(runs["verbs"], "rate_hz"), "native tcp", values(runs["tcp"], "rate_hz")),
                     Row(f"{what}, p50", "us", values(runs["verbs"], "latency_us", "all", "p50"), "native tcp",
                         values(runs["tcp"], "latency_us", "all", "p50"))]
    return rows


def both_sides(runs):
    return [run["cpu"]["client"]["ns_per_operation"] + run["cpu"]["server"]["ns_per_operation"] for run in runs]


def mixes(g):
    """YCSB's core workloads, one client, beside redis-server through the same driver."""
    rows = []
    for mix in MIXES:
        with g.redis() as redis, g.cordma() as kv:
            # Keys inserted by D exist in the next repetition; every server gets the same, alone.
            g.load(redis, redis.resp())
            g.load(kv, kv.resp())
            runs = interleaved(
                g.repetitions,
                redis=lambda: g.bench(redis, redis.resp(), mix),
                resp=lambda: g.bench(kv, kv.resp(), mix),
                shm=lambda: g.bench(kv, kv.native("shm"), mix),
                tcp=lambda: g.bench(kv, kv.native("tcp"), mix))
        for way, name in (("shm", "native shm"), ("tcp", "native tcp"), ("resp", "RESP")):
            what = f"YCSB {mix.upper()}, {name}"
            rows.append(Row(what, "/s", values(runs[way], "rate_hz"), "redis-server", values(runs["redis"], "rate_hz")))
            for percentile in ("p50", "p99", "p999"):
                rows.append(Row(f"{what}, {percentile}", "us", values(runs[way], "latency_us", "all", percentile),
                                "redis-server", values(runs["redis"], "latency_us", "all", percentile)))
    return rows


def single_commands(g):
    """Commands on a hash of a million fields, by the slow log; SETs that wait for the disk beside thousands of silent clients."""
    runs = interleaved(g.repetitions, redis=lambda: costs.of_a_long_hash(g.redis()), kv=lambda: costs.of_a_long_hash(g.cordma_alone()))
    rows = []
    for key, what, unit, goal in (("hscan_us", "HSCAN COUNT 10 of a million fields", "us", 100),
                                  ("fields", "fields that it gives at most", "", 20),
                                  ("unlink_us", "UNLINK of a million fields", "us", 1_000)):
        rows.append(Row(what, unit, values(runs["kv"], key), "redis-server", values(runs["redis"], key), ("<=", goal, "")))
    many = more_files(5_000)
    sets = interleaved(g.repetitions, alone=lambda: costs.sets_beside(g.cordma_alone(), 0, g.seconds),
                       beside=lambda: costs.sets_beside(g.cordma_alone(), many, g.seconds))
    rows.append(Row(f"SET with appendfsync always, beside {many:,} silent clients", "/s", sets["beside"], "without them",
                    sets["alone"], (">=", 0.9, "x")))
    return rows


def small_hashes(g):
    """Resident memory of many small hashes, and of what is left of it when most of them are deleted."""
    runs = interleaved(g.repetitions, redis=lambda: costs.small_hashes(g.redis()), kv=lambda: costs.small_hashes(g.cordma_alone()))
    mib = {name: {key: [run[key] / 2**20 for run in of] for key in ("full", "left")} for name, of in runs.items()}
    used = statistics.median(values(runs["kv"], "used"))
    spare = costs.SPARE / 2**20
    note = " and ".join(f"{statistics.median(values(of, 'many')):,.0f} in {name}" for name, of in runs.items())
    return [Row(f"resident, small hashes up to maxmemory {costs.MAXMEMORY >> 20} MiB", "MiB", mib["kv"]["full"], "redis-server",
                mib["redis"]["full"], ("<=", 1.15 * costs.MAXMEMORY / 2**20 + spare, ""), note),
            Row("resident, after DEL of 90 % of them", "MiB", mib["kv"]["left"], "redis-server", mib["redis"]["left"],
                ("<=", 1.2 * used / 2**20 + spare, ""), f"used_memory {used / 2**20:.0f} MiB")]


PARTS = {"redis-benchmark": redis_clients, "memory": memory, "idle": idle_clients, "native": native_polling,
         "doors": both_doors, "ycsb": mixes, "verbs": verbs,
         "commands": single_commands, "small-hashes": small_hashes}
