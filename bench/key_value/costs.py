"""What single commands cost a server, by its own slow log, and what small objects take of memory."""
import contextlib
import re
import socket
import time

FIELDS = 1_000_000
MAXMEMORY = 400 << 20
SPARE = 64 << 20


class Connection:
    """Words there, replies back; several commands may be on the way."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def say(self, *commands):
        said = b""
        for words in commands:
            said += b"*%d\r\n" % len(words)
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                said += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(said)

    def hear(self):
        kind, rest = (line := self.file.readline())[:1], line[1:-2]
        if kind == b"*":
            return [self.hear() for _ in range(int(rest))]
        if kind == b"$" and rest != b"-1":
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else None if kind == b"$" else rest

    def ask(self, *words):
        self.say(words)
        return self.hear()

    def times_us(self, command):
        """What each of those in the slow log took in the server, the shortest first."""
        return sorted(entry[2] for entry in self.ask("SLOWLOG", "GET", -1) if entry[3][0] == command.encode())

    def log_everything(self):
        self.ask("CONFIG", "SET", "slowlog-log-slower-than", 0)
        self.ask("CONFIG", "SET", "slowlog-max-len", 1_000)
        self.ask("SLOWLOG", "RESET")


def fill(c, name, fields=FIELDS, at_once=5_000):
    for first in range(0, fields, at_once):
        c.ask("HSET", name, *(word for i in range(first, first + at_once) for word in (f"field:{i}", "v")))


def of_a_long_hash(server):
    """Microseconds in the server, of HSCAN COUNT 10 the median of 300, of UNLINK; and the most fields that a HSCAN gave."""
    with server, Connection(server.port) as c:
        fill(c, "h")
        c.log_everything()
        cursor, given = b"0", 0
        for _ in range(300):
            cursor, fields = c.ask("HSCAN", "h", cursor, "COUNT", 10)
            given = max(given, len(fields) // 2)
        times = c.times_us("HSCAN")
        c.ask("SLOWLOG", "RESET")
        c.ask("UNLINK", "h")
        return {"hscan_us": times[len(times) // 2], "fields": given, "unlink_us": max(c.times_us("UNLINK"))}


def sets_beside(server, silent, seconds):
    """SETs per second of one client that asks one by one, each on the disk before it is answered."""
    with server, contextlib.ExitStack() as clients:
        for _ in range(silent):
            clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        c = clients.enter_context(Connection(server.port))
        while f"connected_clients:{silent + 1}".encode() not in c.ask("INFO", "clients"):
            time.sleep(0.1)
        c.ask("CONFIG", "SET", "appendonly", "yes")
        c.ask("CONFIG", "SET", "appendfsync", "always")
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            c.ask("SET", "a", 1)
            done += 1
        return done / seconds


def small_hashes(server, maxmemory=MAXMEMORY, at_once=200):
    """Bytes: of hashes of five short fields as many as fit into maxmemory, then nine of ten of them deleted."""
    with server, Connection(server.port) as c:
        c.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        c.ask("CONFIG", "SET", "maxmemory", maxmemory)
        many, full = 0, False
        while not full:
            c.say(*(["HSET", f"user:{i}", *(word for f in range(5) for word in (f"field{f}", f"value-{i}-{f}"))]
                    for i in range(many, many + at_once)))
            for _ in range(at_once):
                try:
                    c.hear()
                    many += 1
                except RuntimeError as error:
                    if not re.match("OOM", str(error)):
                        raise
                    full = True
        found = {"full": server.resident(), "many": many}
        for first in range(0, many, at_once):
            keys = [f"user:{i}" for i in range(first, min(first + at_once, many)) if i % 10]
            if keys:
                c.ask("DEL", *keys)
        # Memory that the server releases gradually; it is read when it no longer decreases.
        left, until = server.resident(), time.monotonic() + 20
        while time.monotonic() < until:
            time.sleep(1)
            now = server.resident()
            if now >= left:
                break
            left = now
        return {**found, "left": left, "used": server.used_memory()}
