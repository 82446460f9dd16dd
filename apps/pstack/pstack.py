"""Prints the suspended coroutines of a process or a core dump. Run by cordma-pstack in gdb.

The symbol `cordma_stack_layout` (runtime/live_reactors.cpp) holds the address of the table of live reactors and the
offsets of the fields that lead from a reactor to its tasks, and from a task to its callers. A live process is stopped by
ptrace(2) while these are read; symbols are read before it, names after it. A core dump is read by gdb.
"""
import bisect
import collections
import ctypes
import mmap
import os
import struct
import sys
import time

import gdb

SYMBOL = b"cordma_stack_layout"
VERSION = 2
FIELDS = ("version", "table", "entries", "entry_bytes", "entry_object", "entry_thread", "reactor_tasks",
          "node_next", "running_top", "running_group", "promise_context", "promise_awaiter", "promise_awaited",
          "promise_suspended_at", "promise_in_frame", "context_running", "context_waiter",
          "group_waiting", "operation_context")
PAGE = 4096
BLOCK = 16 * PAGE
MAX_CALLERS = 1000
STRIPPED = ("{} has no symbol " + SYMBOL.decode() + ": it is stripped, or not linked with cordma. Give the unstripped "
            "program as the second argument, or strip with --keep-symbol=" + SYMBOL.decode())


# Raised while reading a damaged file, or memory that contains no list.
NONSENSE = (struct.error, ValueError, OverflowError)


class Failed(Exception):
    """A sentence for the user."""


class Memory:
    """Words of the target, through a cache of pages."""

    without_memory = "its lists were just being changed"

    def __init__(self):
        self.pages = {}

    def word(self, address):
        page = self.pages.get(address >> 12)
        if page is None:
            page = self.load(address >> 12)
        return page[(address & 4095) >> 3]

    def load(self, page):
        first = page & ~15
        data = self.read(first * PAGE, BLOCK)
        if data is None or len(data) < BLOCK:
            first, data = page, self.read(page * PAGE, PAGE)
        if data is None or len(data) < PAGE:
            raise Failed(f"no memory at {page * PAGE:#x}: {self.without_memory}")
        words = memoryview(data).cast("Q")
        for i in range(len(data) // PAGE):
            self.pages[first + i] = words[i * 512:(i + 1) * 512]
        return self.pages[page]

    def text(self, address):
        out = b""
        while b"\0" not in out and len(out) < 4096:
            part = self.read(address + len(out), 64 - (address + len(out)) % 64)
            if not part:
                break
            out += part
        return out.split(b"\0")[0].decode(errors="replace")


def symbol_in(path):
    """(value, True if the file is loaded anywhere) of SYMBOL in an ELF file; None: it has none."""
    with open(path, "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return None
    if data[:4] != b"\x7fELF" or data[4] != 2:
        return None
    kind, = struct.unpack_from("<H", data, 16)
    headers, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, headers + i * size) for i in range(count)]
    for section in sections:
        if section[1] not in (2, 11):  # symbols, dynamic symbols
            continue
        strings = sections[section[6]]
        names = data[strings[4]:strings[4] + strings[5]]
        at = names.find(b"\0" + SYMBOL + b"\0") + 1
        if at == 0:
            continue
        for name, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data[section[4]:section[4] + section[5]]):
            if name == at:
                return value, kind == 3
    return None


class Process(Memory):
    """A live process. Its threads stand still between stop() and go_on().

    Of a process with little private memory stop() copies all, so that it goes on before the lists are walked."""
    MAX_COPY = 256 << 20
    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, pid):
        super().__init__()
        self.pid = pid
        self.program = os.readlink(f"/proc/{pid}/exe")
        self.memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self.copies = []  # (begin, bytes), by address
        self.stopped = []
        self.goes_on = False
        self.began = time.monotonic()

    def read(self, address, length):
        at = bisect.bisect_right(self.copies, address, key=lambda copy: copy[0]) - 1
        if at >= 0:
            begin, data = self.copies[at]
            if address + length <= begin + len(data):
                return data[address - begin:address - begin + length]
        try:
            return os.pread(self.memory, length, address)
        except OSError:
            return None

    def layout(self):
        files = collections.OrderedDict()
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                words = line.split(maxsplit=5)
                if len(words) == 6 and words[5].startswith("/") and words[4] != "0":
                    files.setdefault(words[5].strip(), int(words[0].split("-")[0], 16))
        for path, base in files.items():
            through = f"/proc/{self.pid}/exe" if path == self.program else f"/proc/{self.pid}/root{path}"
            try:
                found = symbol_in(through)
            except OSError:
                continue
            if found:
                return found[0] + (base if found[1] else 0)
        raise Failed(STRIPPED.format(self.program))

    def stop(self):
        self.began = time.monotonic()
        for _ in range(3):  # threads may start meanwhile
            new = [t for t in map(int, os.listdir(f"/proc/{self.pid}/task")) if t not in self.stopped]
            for thread in new:
                if self.libc.ptrace(self.SEIZE, thread, None, None) != 0:
                    code = ctypes.get_errno()
                    if thread == self.pid:
                        raise Failed(f"process {self.pid} cannot be stopped: {os.strerror(code)}")
                    continue
                self.libc.ptrace(self.INTERRUPT, thread, None, None)
                os.waitpid(thread, self.WALL)
                self.stopped.append(thread)
            if not new:
                break

        self.goes_on = self.copy()
        if self.goes_on:
            self.release()

    def copy(self):
        regions = []
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                places, rights = line.split(maxsplit=2)[:2]
                if rights.startswith("rw") and rights.endswith("p"):
                    begin, end = (int(n, 16) for n in places.split("-"))
                    regions.append((begin, end - begin))
        if sum(length for _, length in regions) > self.MAX_COPY:
            return False
        copies = []
        for begin, length in regions:
            data = self.read(begin, length)
            if data:
                copies.append((begin, data))
        self.copies = copies
        return True

    def release(self):
        for thread in self.stopped:
            self.libc.ptrace(self.DETACH, thread, None, None)
        self.stop_ms = (time.monotonic() - self.began) * 1000

    def go_on(self):
        if not self.goes_on:
            self.release()


class Core(Memory):
    """A core dump, read by gdb."""

    def __init__(self, path, program):
        super().__init__()
        self.program = program or program_of(path)
        self.without_memory = f"the core dump is not whole, or {self.program} is not the program that made it"
        quiet(f"file {self.program}")
        quiet(f"core-file {path}")

    def read(self, address, length):
        try:
            return bytes(gdb.selected_inferior().read_memory(address, length))
        except gdb.error:
            return None

    def layout(self):
        try:
            return int(gdb.parse_and_eval(f"(long)&{SYMBOL.decode()}")) & (1 << 64) - 1
        except gdb.error:
            raise Failed(STRIPPED.format(self.program)) from None

    def stop(self):
        pass

    def go_on(self):
        pass


def quiet(command):
    try:
        gdb.execute(command, to_string=True)
    except gdb.error as e:
        raise Failed(str(e)) from None


def program_of(core):
    """The file that is mapped first, by the core dump's note of files."""
    try:
        return name_in_notes(core)
    except NONSENSE:
        raise Failed(f"{core} is damaged, or not a whole core dump") from None


def name_in_notes(core):
    with open(core, "rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF" or struct.unpack_from("<H", head, 16)[0] != 4:
            raise Failed(f"{core} is neither a process nor a core dump")
        headers, = struct.unpack_from("<Q", head, 32)
        count, = struct.unpack_from("<H", head, 56)
        for i in range(count):
            file.seek(headers + 56 * i)
            kind, _, offset, _, _, size = struct.unpack("<IIQQQQ", file.read(40))
            if kind != 4:
                continue
            file.seek(offset)
            notes = file.read(size)
            at = 0
            while at + 12 <= len(notes):
                name, length, what = struct.unpack_from("<III", notes, at)
                body = at + 12 + (name + 3 & ~3)
                if what == 0x46494c45:  # NT_FILE
                    files, = struct.unpack_from("<Q", notes, body)
                    return notes[body + 16 + 24 * files:body + length].split(b"\0")[0].decode()
                at = body + (length + 3 & ~3)
    raise Failed(f"{core} does not name its program: give it as the second argument")


class Chains:
    """Walks from the table of reactors to every suspended coroutine."""

    def __init__(self, target, layout):
        self.word = target.word
        values = [self.word(layout + 8 * i) for i in range(len(FIELDS))]
        for name, value in zip(FIELDS, values):
            setattr(self, name, value)
        if self.version != VERSION:
            raise Failed(f"the program has version {self.version} of {SYMBOL.decode()}, this script reads {VERSION}: "
                         "use the cordma-pstack of that version of cordma")

    def reactors(self):
        for i in range(self.entries):
            entry = self.table + i * self.entry_bytes
            reactor = self.word(entry + self.entry_object)
            if reactor:
                at = entry + self.entry_thread
                yield reactor, self.word(at & ~7) >> 8 * (at & 7) & 0xffffffff

    def nodes(self, head):
        """Of an intrusive list; None where two links do not fit together."""
        word, following = self.word, self.node_next
        at = head
        while True:
            after = word(at + following)
            if not after or word(after + following - 8) != at:
                yield None
                return
            if after == head:
                return
            yield after
            at = after

    def joiner(self, group):
        """The context of the task that waits for a group; 0: none does."""
        head = group + self.group_waiting
        operation = self.word(head + self.node_next)
        return 0 if operation in (0, head) else self.word(operation + self.operation_context)

    def chain(self, node):
        """The places at which the coroutine that waits and its callers are suspended; None: just being changed."""
        word = self.word
        at = word(node + self.running_top)
        for _ in range(MAX_CALLERS):
            below = word(at + self.promise_awaited)
            if not below:
                break
            if word(below + self.promise_awaiter) != at:
                return None
            at = below
        places = []
        group = word(node + self.running_group)
        while at and len(places) < MAX_CALLERS:
            places.append(word(at + self.promise_suspended_at))
            above = word(at + self.promise_awaiter)
            if above:
                at = above
                continue
            context = self.joiner(group) if group else 0
            frame = word(context + self.context_waiter) if context else 0
            if not frame:
                break
            at = frame + self.promise_in_frame
            group = word(context + self.context_running + self.running_group)
        return tuple(places)

    def of_reactor(self, reactor):
        """(tasks, {chain: tasks that wait alike}, tasks that were being changed)."""
        nodes = list(self.nodes(reactor + self.reactor_tasks))
        whole = None not in nodes
        nodes = [n for n in nodes if n is not None]
        joining = set()
        groups = {self.word(n + self.running_group) for n in nodes}
        for group in groups - {0}:
            context = self.joiner(group)
            if context:
                joining.add(context + self.context_running)
        alike = collections.Counter()
        moving = 0
        for node in nodes:
            if node in joining:
                continue
            try:
                places = self.chain(node)
            except Failed:
                places = None
            if places:
                alike[places] += 1
            else:
                moving += 1
        return len(nodes), alike, moving, whole


def function_name(pretty):
    """Without result, parameters and unnamed namespaces."""
    text = pretty.replace("(anonymous namespace)::", "").replace("{anonymous}::", "")
    depth, end = 0, len(text)
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth <= 0:
            end = i
            break
    head, depth = text[:end], 0
    for i in range(len(head) - 1, -1, -1):
        depth += (head[i] == ">") - (head[i] == "<")
        if head[i] in " *&" and depth == 0:
            return head[i + 1:]
    return head


def place_text(target, place):
    if not place:
        return "a task that has not begun"
    file, function, where = (target.word(place + 8 * i) for i in range(3))
    path = "/".join(target.text(file).split("/")[-2:])
    return f"{function_name(target.text(function))} at {path}:{where & 0xffffffff}"


def report(target):
    layout = target.layout()
    try:
        target.stop()
        chains = Chains(target, layout)
        found = [(reactor, thread, chains.of_reactor(reactor)) for reactor, thread in chains.reactors()]
    finally:
        target.go_on()
    texts = {}
    print(f"{target.program}: {len(found)} reactors")
    for reactor, thread, (tasks, alike, moving, whole) in found:
        print(f"reactor {reactor:#x} on thread {thread}: {tasks} tasks")
        if not whole:
            print("  the list was just being changed: there may be more")
        for places, count in alike.most_common():
            for i, place in enumerate(places):
                if place not in texts:
                    texts[place] = place_text(target, place)
                times = f"  ({count} tasks alike)" if i == 0 and count > 1 else ""
                print(f"  {'waits' if i == 0 else '   in'}: {texts[place]}{times}")
        if moving:
            print(f"  {moving} tasks: just being changed")


def main():
    began = time.monotonic()
    which = os.environ["CORDMA_PSTACK_TARGET"]
    try:
        if which.isdigit():
            if not os.path.isdir(f"/proc/{which}"):
                raise Failed(f"there is no process {which}")
            target = Process(int(which))
        else:
            target = Core(which, os.environ["CORDMA_PSTACK_PROGRAM"])
        try:
            report(target)
        except NONSENSE:
            raise Failed(f"{which}: its lists make no sense") from None
    except (Failed, OSError) as e:
        why = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) and e.filename else e
        print(f"cordma-pstack: {why}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    if os.environ["CORDMA_PSTACK_TIMES"]:
        stopped = getattr(target, "stop_ms", 0)
        print(f"stopped for {stopped:.0f} ms; {time.monotonic() - began:.2f} s in all", file=sys.stderr)


main()
