#!/usr/bin/env python3
"""Sends the same commands to cordma-kv and to redis-server, and compares their replies byte for byte.

kv_beside_redis.py SOCKET_OF_CORDMA_KV SOCKET_OF_REDIS [--seed N] [--rounds N]

Both are emptied first. What has no order (HGETALL, KEYS, SCAN, ...) is compared without one. Exits with 1 at the first
difference, which is told with the seed that brings it about again.
"""
import argparse
import random
import socket
import sys

UNORDERED = {b"HGETALL", b"HKEYS", b"HVALS", b"KEYS"}


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.kept = b""

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        while b"\r\n" not in self.kept:
            self.more()
        line, self.kept = self.kept.split(b"\r\n", 1)
        return line + b"\r\n"

    def more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection; before that: %r" % self.kept)
        self.kept += data

    def reply(self):
        """One reply, as its bytes and as a tree of parts."""
        line = self.line()
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=" and rest != b"-1":
            size = int(rest) + 2
            while len(self.kept) < size:
                self.more()
            data, self.kept = self.kept[:size], self.kept[size:]
            return line + data, line + data
        if kind in b"*~>%" and rest != b"-1":
            parts = [self.reply() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
            return line + b"".join(p[0] for p in parts), [line] + [p[1] for p in parts]
        return line, line

    def until_closed(self):
        try:
            while True:
                self.more()
        except (EOFError, ConnectionError):
            return self.kept


def packed(words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"h1", b"h2", b"h3", b"", b"bin\x00\r\n\xff", b"x" * 300]
FIELDS = [b"f", b"g", b"1", b"", b"field:3", b"\xfe\r\n"]
NUMBERS = [b"0", b"1", b"-1", b"10", b"42", b"-7", b"9223372036854775807", b"-9223372036854775808",
           b"9223372036854775808", b"01", b"+1", b" 1", b"1 ", b"", b"x", b"1.5", b"-0", b"3.0e3", b"inf", b"nan",
           b"1e400", b"0x10", b"100000"]
VALUES = NUMBERS + [b"hello", b"hello world", b"v" * 50, b"\x00\x01", b"y" * 5000, b"-1.25", b"abc"]
SMALL = [b"0", b"1", b"2", b"5", b"-1", b"-3", b"100", b"1000", b"x", b"-100", b"536870911", b"536870912"]
# Times in seconds, far enough from the present that they do not expire during the test.
TIMES = [b"100", b"1000", b"100000", b"0", b"-1", b"x", b"9223372036854775807", b"1.5", b"92233720368547758",
         b"-9223372036854775808", b"-9223372036854775", b"9223372036854775"]
AT = [b"4102444800", b"4102444801", b"1", b"0", b"-5", b"x", b"9223372036854775", b"9223372036854776",
      b"-9223372036854775808"]
AT_MS = [b"4102444800000", b"4102444800001", b"1", b"-5", b"x", b"9223372036854775807", b"-9223372036854775808"]
CURSORS = [b"x", b"-", b"+", b"+-1", b" 1", b"1x", b"18446744073709551616", b"-18446744073709551616"]


def words_of(r):
    """A command that has one answer, whatever the time."""
    k = lambda: r.choice(KEYS)
    f = lambda: r.choice(FIELDS)
    v = lambda: r.choice(VALUES)
    n = lambda: r.choice(NUMBERS)
    t = lambda: r.choice(TIMES)
    some = lambda one, most: [one() for _ in range(r.randrange(most + 1))]
    case = lambda w: r.choice([w, w.lower(), w.title()])

    def set_options():
        out = []
        for _ in range(r.choice([0, 0, 0, 1, 1, 2, 3])):
            o = r.choice([b"NX", b"XX", b"GET", b"KEEPTTL", b"EX", b"PX", b"EXAT", b"PXAT", b"FOO", b"PERSIST"])
            out.append(case(o))
            if o in (b"EX", b"PX"):
                out.append(t())
            elif o == b"EXAT":
                out.append(r.choice(AT))
            elif o == b"PXAT":
                out.append(r.choice(AT_MS))
        return out

    def expire_options():
        return [case(r.choice([b"NX", b"XX", b"GT", b"LT", b"BAD"])) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]

    def copy_options():
        return r.choice([[], [], [b"REPLACE"], [b"DB", b"0"], [b"DB", b"1"], [b"REPLACE", b"DB", b"1"], [b"DB", b"x"], [b"FOO"], [b"DB"]])

    def pairs(one, other):
        out = []
        for _ in range(r.randrange(4)):
            out += [one(), other()]
        return out + ([one()] if r.randrange(8) == 0 else [])

    table = [
        lambda: [b"GET", k()], lambda: [b"SET", k(), v()] + set_options(), lambda: [b"SETNX", k(), v()],
        lambda: [b"SETEX", k(), t(), v()], lambda: [b"PSETEX", k(), r.choice([b"100000", b"0", b"-1", b"x"]), v()],
        lambda: [b"GETSET", k(), v()], lambda: [b"GETDEL", k()], lambda: [b"GETEX", k()] + set_options(),
        lambda: [b"MGET"] + some(k, 20), lambda: [b"MSET"] + pairs(k, v), lambda: [b"MSETNX"] + pairs(k, v),
        lambda: [b"APPEND", k(), v()], lambda: [b"STRLEN", k()],
        lambda: [b"GETRANGE", k(), r.choice(SMALL), r.choice(SMALL)],
        lambda: [b"SUBSTR", k(), r.choice(SMALL), r.choice(SMALL)],
        lambda: [b"SETRANGE", k(), r.choice(SMALL[:10]), v()],
        lambda: [b"SETRANGE", k(), b"536870912", v()],
        lambda: [b"INCR", k()], lambda: [b"DECR", k()], lambda: [b"INCRBY", k(), n()], lambda: [b"DECRBY", k(), n()],
        lambda: [b"INCRBYFLOAT", k(), v()],
        lambda: [b"DEL"] + some(k, 3), lambda: [b"UNLINK"] + some(k, 3), lambda: [b"EXISTS"] + some(k, 4),
        lambda: [b"TOUCH"] + some(k, 4), lambda: [b"TYPE", k()], lambda: [b"RENAME", k(), k()],
        lambda: [b"RENAMENX", k(), k()], lambda: [b"COPY", k(), k()] + copy_options(), lambda: [b"DBSIZE"],
        lambda: [b"EXPIRE", k(), t()] + expire_options(), lambda: [b"EXPIREAT", k(), r.choice(AT)] + expire_options(),
        lambda: [b"PEXPIRE", k(), t()] + expire_options(),
        lambda: [b"PEXPIREAT", k(), r.choice(AT_MS)] + expire_options(),
        lambda: [b"EXPIRETIME", k()] if r.randrange(2) else [b"PERSIST", k()], lambda: [b"PERSIST", k()],
        lambda: [b"OBJECT", r.choice([b"FOO", b"FREQ"]), k()],
        lambda: [b"KEYS", r.choice([b"*", b"key:*", b"h?", b"[ab]", b"[^a]", b"h[1-2]", b"\\a", b"x*x", b""])],
        lambda: [b"HSET", k()] + pairs(f, v), lambda: [b"HMSET", k()] + pairs(f, v), lambda: [b"HSETNX", k(), f(), v()],
        lambda: [b"HGET", k(), f()], lambda: [b"HMGET", k()] + some(f, 4), lambda: [b"HGETALL", k()],
        lambda: [b"HDEL", k()] + some(f, 3), lambda: [b"HLEN", k()], lambda: [b"HEXISTS", k(), f()],
        lambda: [b"HKEYS", k()], lambda: [b"HVALS", k()], lambda: [b"HINCRBY", k(), f(), n()],
        lambda: [b"HINCRBYFLOAT", k(), f(), n()], lambda: [b"HSTRLEN", k(), f()],
        lambda: [b"HRANDFIELD", k(), r.choice([b"0", b"x", b"-9223372036854775808"])],
        lambda: [b"PING"] + some(v, 2), lambda: [b"ECHO"] + some(v, 2), lambda: [b"SELECT", r.choice([b"0", b"0", b"1", b"x", b"99"])],
        lambda: [b"MOVE", k(), r.choice([b"0", b"1", b"2", b"x", b"16"])],
        lambda: [b"SWAPDB", r.choice([b"0", b"x"]), r.choice([b"0", b"1", b"1", b"x", b"16", b"-1"])],
        lambda: [b"AUTH"] + some(v, 3), lambda: [b"TTL"] + some(k, 0), lambda: [b"SCAN", r.choice(CURSORS)],
        lambda: [b"HSCAN", b"nokey", r.choice(CURSORS + [b"-1", b"+1", b"", b"18446744073709551615"])],
        lambda: [b"DEBUG", r.choice([b"SLEEP", b"FOO"]), b"0"], lambda: [b"MEMORY", b"DOCTOR", b"x"],
        lambda: [b"SCAN", b"0", r.choice([b"COUNT", b"FOO"]), r.choice([b"0", b"x", b"-1"])],
        lambda: [b"MULTI"], lambda: [b"EXEC"], lambda: [b"EXEC"], lambda: [b"DISCARD"], lambda: [b"WATCH"] + some(k, 2),
        lambda: [b"UNWATCH"], lambda: [b"NOSUCH"] + some(n, 3), lambda: [b"CLIENT", b"GETNAME"],
        lambda: [b"CLIENT", b"SETNAME", r.choice([b"me", b"a b", b""])], lambda: [b"CLIENT", b"REPLY", b"ON"],
        lambda: [b"CLIENT", r.choice([b"FOO", b"ID"]), b"x", b"y"], lambda: [b"CONFIG", r.choice([b"FOO", b"SET"]), k()],
        lambda: [b"CONFIG", b"GET", r.choice([b"maxmemory", b"appendfsync", b"maxmemory-policy", b"nosuch"])],
        lambda: [b"CONFIG", b"SET", b"maxmemory-policy", r.choice([b"noeviction", b"foo", b"ALLKEYS-LRU"])],
        lambda: [b"CONFIG", b"SET", r.choice([b"maxmemory", b"timeout", b"save", b"databases", b"nosuch"]), b"xyz"],
        lambda: [b"FUNCTION", b"FLUSH"] + some(v, 1), lambda: [b"SLOWLOG", b"GET", r.choice([b"x", b"-2"])],
        lambda: [b"ACL", r.choice([b"WHOAMI", b"USERS", b"FOO"])], lambda: [b"ACL", b"CAT", r.choice([b"hash!", b"foo"])],
        lambda: [b"MEMORY", b"USAGE", k(), b"SAMPLES"], lambda: [b"WAIT", b"0", n()], lambda: [b"RESET"],
        lambda: [b"COPY", k()], lambda: [b"FLUSHALL"] + ([b"x"] if r.randrange(4) else []), lambda: [b"HELLO", r.choice([b"4", b"x"])],
    ]
    words = r.choice(table)()
    words[0] = case(words[0])
    if r.randrange(60) == 0 and words[0].upper() not in (b"HELLO", b"SCAN", b"SLOWLOG", b"CLIENT", b"MEMORY"):
        words = words[:r.randrange(1, len(words) + 1)]
    return words


def plain(tree, words):
    if words[0].upper() in UNORDERED and isinstance(tree, list):
        items = tree[1:]
        if words[0].upper() == b"HGETALL":
            items = list(zip(items[::2], items[1::2]))
        return [tree[0]] + sorted(items, key=repr)
    return tree


def transaction_plain(tree, queued):
    if not isinstance(tree, list) or len(tree) != len(queued) + 1:
        return tree
    return [tree[0]] + [plain(t, w) for t, w in zip(tree[1:], queued)]


def compare_commands(ours, theirs, seed, rounds, resp3):
    r = random.Random(seed)
    for c in (ours, theirs):
        c.send(packed([b"FLUSHALL"]) + packed([b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction"]))
        c.reply(), c.reply()
        if resp3:
            c.send(packed([b"HELLO", b"3"]))
            c.reply()
    queued = []
    is_open = False
    for number in range(rounds):
        batch = [words_of(r) for _ in range(r.choice([1, 1, 2, 5, 30]))]
        data = b"".join(packed(w) for w in batch)
        for c in (ours, theirs):
            cut = r.randrange(len(data) + 1) if c is ours and r.randrange(3) == 0 else len(data)
            c.send(data[:cut])
            c.send(data[cut:])
        for words in batch:
            mine, my_tree = ours.reply()
            other, their_tree = theirs.reply()
            name = words[0].upper()
            if is_open and name == b"EXEC":
                my_tree, their_tree = transaction_plain(my_tree, queued), transaction_plain(their_tree, queued)
            else:
                my_tree, their_tree = plain(my_tree, words), plain(their_tree, words)
            if my_tree != their_tree:
                print("different, seed %d, round %d, resp%d: %r" % (seed, number, 3 if resp3 else 2, words))
                print("  cordma-kv: %r\n  redis:     %r" % (mine[:2000], other[:2000]))
                return False
            if name == b"MULTI" and other == b"+OK\r\n":
                is_open, queued = True, []
            elif other == b"+QUEUED\r\n":
                queued.append(words)
            elif name in (b"EXEC", b"DISCARD", b"RESET") and not (name != b"RESET" and other.startswith(b"-ERR wrong")):
                is_open = False
    return True


# Bytes that are not commands. The complete response, until the server closes, is compared.
BROKEN = [
    b"*1\r\n$x\r\n", b"*1\r\n$-5\r\n", b"*x\r\n", b"*99999999999\r\n", b"*2147483648\r\n", b"*1\r\nPING\r\n", b"*1\r\n:3\r\n",
    b"*1\r\n$536870913\r\n", b"SET \"unbalanced\r\n", b"SET 'x\r\n", b"get \"a\"b\r\n", b"*" + b"1" * 70000,
    b"*1\r\n$" + b"1" * 70000, b"z" * 70000, b"PING\r\n*1\r\n$abc\r\nPING\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n#\r\n",
    b"*-1\r\n*0\r\n\r\n\nPING\r\nQUIT\r\n", b"QUIT\r\nPING\r\n", b"SET i \"a\\x41\\n\\\"\" \r\nGET i\r\nquit\r\n",
    b"set i 'it\\'s'\r\nget i\r\nquit\r\n", b"echo \"\"\r\nquit\r\n", b"  ping  \t x \r\nquit\r\n",
    b"*2\r\n$4\r\necho\r\n$3\r\na\rb\r\n*1\r\n$4\r\nquit\r\n", b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nquit\r\n",
]


def compare_broken(paths):
    for data in BROKEN:
        answers = []
        for path in paths:
            c = Client(path)
            try:
                c.send(data)
            except ConnectionError:
                pass
            answers.append(c.until_closed())
        if answers[0] != answers[1]:
            print("different for %r:\n  cordma-kv: %r\n  redis:     %r" % (data[:100], *answers))
            return False
    return True


# Commands that need separate rights for each key. Each runs as users with the right to read only,
# to write only, or to use a different key for each.
USERS = [b"reset on nopass +@all %R~*", b"reset on nopass +@all %W~*", b"reset on nopass +@all %R~s* %W~d*",
         b"reset on nopass -@all +get +acl|whoami ~s*"]
FOR_RIGHTS = [line.split() for line in b"""\
get s|set s 1|set s 1 GET|set s 1 ex 10 get|setnx s 1|setex s 10 1|psetex s 10 1|getset s 1|getdel s|getex s|
getex s persist|mget s s2|mget s d|mset s 1 d 2|msetnx s 1|append s x|strlen s|getrange s 0 1|substr s 0 1|
setrange s 0 x|incr s|decr s|incrby s 1|decrby s 1|incrbyfloat s 1|del s|unlink s|exists s|touch s|type s|
rename s d|renamenx s d|copy s d|copy d s replace|expire s 1|pexpire s 1|expireat s 1|pexpireat s 1|ttl s|pttl s|
expiretime s|pexpiretime s|persist s|move s 1|hgetall s|hkeys s|hvals s|hscan s 0|hrandfield s|hset s f 1|hmset s f 1|
hsetnx s f 1|hget s f|hmget s f|hdel s f|hlen s|hexists s f|hstrlen s f|hincrby s f 1|hincrbyfloat s f 1|
memory usage s|object encoding s|object freq s|object refcount s|object idletime s|watch s|keys *|dbsize|
acl whoami|acl users|acl nosuch|nosuch s|get""".replace(b"\n", b"").split(b"|")]


def compare_rights(ours, theirs):
    asked = [[b"ACL", b"SETUSER", b"someone"] + rules.split() for rules in USERS]
    for rules in asked:
        for words in [rules] + [[b"ACL", b"DRYRUN", b"someone"] + w for w in FOR_RIGHTS]:
            answers = []
            for c in (ours, theirs):
                c.send(packed(words))
                answers.append(c.reply()[0])
            if answers[0] != answers[1]:
                print("different for %r of %r:\n  cordma-kv: %r\n  redis:     %r" % (words, rules, *answers))
                return False
    for c in (ours, theirs):
        c.send(packed([b"ACL", b"DELUSER", b"someone"]))
        c.reply()
    return True


# Each server has a different set of these sub-commands.
NOT_REDIS = {b"client|setinfo", b"debug|sleep", b"debug|help", b"delifeq"}


def compare_command_info(ours, theirs):
    """What COMMAND INFO says of each command that cordma-kv has; sets in any order."""
    def info_of(c, name):
        c.send(packed([b"COMMAND", b"INFO", name]))
        return c.reply()[1][1]

    def in_order(tree):
        return [tree[0]] + sorted(map(in_order, tree[1:]), key=repr) if isinstance(tree, list) else tree

    ours.send(packed([b"COMMAND", b"LIST"]))
    names = [bulk.split(b"\r\n")[1] for bulk in ours.reply()[1][1:]]
    for name in set(names) - NOT_REDIS:
        name_of = lambda tree: tree[1].split(b"\r\n")[1]
        mine, other = info_of(ours, name), info_of(theirs, name)
        parts = [name_of(part) for part in mine[10][1:]]
        for full in [name] + [p for p in parts if p not in NOT_REDIS]:
            mine, other = info_of(ours, full), info_of(theirs, full)
            if in_order(mine[:10]) != in_order(other[:10]):
                print("COMMAND INFO %r is different:\n  cordma-kv: %r\n  redis:     %r" % (full, mine, other))
                return False
    return True


# Complete conversations. Their responses are compared as one text.
CONVERSATIONS = b"""\
multi|ping|client reply skip|exec|ping|echo x
multi|ping|client reply off|ping|exec|ping|client reply on
client reply off|multi|ping|client reply on|ping|exec|ping
multi|client reply skip|client reply on|ping|exec|ping|echo x
multi|client reply skip|client reply skip|ping|exec|ping|echo x
client reply skip|client reply skip|ping|echo x
shutdown abort
command info nosuch
command getkeysandflags set a b
command getkeysandflags set a b gEt x
command getkeysandflags mset a b c d
command getkeysandflags rename a b
command getkeysandflags copy a b replace
config get MAXMEMORY
config get MaxMemory maxmemory
config set proto-max-bulk-len 1
config set client-query-buffer-limit 9223372036854775808
acl setuser u1 reset|acl getuser u1|acl list|acl deluser u1
acl setuser u1 skip-sanitize-payload on nopass|acl getuser u1|acl list|acl deluser u1
foo\0bar a\0b c
client nosuch\0x
config set nosuch\0x y
acl cat fo\0o
hello 3 fo\0o bar
exec x|multi|exec x|exec""".split(b"\n")


def compare_conversations(paths):
    for text in CONVERSATIONS:
        data = b"".join(packed(line.split(b" ")) for line in text.split(b"|")) + packed([b"QUIT"])
        answers = []
        for path in paths:
            c = Client(path)
            c.send(data)
            answers.append(c.until_closed())
        if answers[0] != answers[1]:
            print("different for %r:\n  cordma-kv: %r\n  redis:     %r" % (text, *answers))
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    paths = [options.ours, options.theirs]
    if not compare_broken(paths) or not compare_conversations(paths):
        return 1
    ours, theirs = Client(options.ours), Client(options.theirs)
    if not compare_command_info(ours, theirs) or not compare_rights(ours, theirs):
        return 1
    for resp3 in (False, True):
        ours, theirs = Client(options.ours), Client(options.theirs)
        if not compare_commands(ours, theirs, options.seed, options.rounds, resp3):
            return 1
    print("the same, seed %d" % options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
