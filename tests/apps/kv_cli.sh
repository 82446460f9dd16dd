# cordma-kv-cli with interactive and scripted use: kv_cli.sh PROGRAMS native|resp|redis. It connects
# to the server of this tree by either of its doors, or to redis-server.
source "$(dirname "$0")/expect.sh"
door=$2
programs=$(realpath "$programs")
cli() { expect "$1" "$2" cordma-kv-cli "${@:3}"; }

# Usage errors end with 2, and the message names the correct usage.
cd "$work"
cli 2 "'--bogus'|option --bogus" --bogus get k
cli 2 'not expected' bench more
cli 2 "'fast' will not do|fast not in" --transport fast get k
cli 2 'lacks a port' --server nowhere get k
cli 2 "workload: 'z' is none" bench --workload z
for records in 0 x 1T -1 ''; do cli 2 'records' bench --records="$records"; done
for bytes in x -1 1G; do cli 2 'value-bytes' bench --value-bytes="$bytes"; done
cli 2 'target' bench --target 0
cli 2 'clients' bench --clients 0
cli 2 'batch' bench --batch 129
cli 2 'in-flight' bench --resp 127.0.0.1:1 --in-flight 2
cli 2 'no process' bench --server-pid 99999999
cli 2 'where records are inserted' bench --workload d --clients 256 --in-flight 64 --batch 128
cli 2 'go with one command' -x
cli 2 '/none: No such file' --token-file /none get k
cli 0 'Examples' --help
for option in --server --resp --token-file --transport --wait --json latency bench; do
  grep -qe "$option" "$work/output" || fail "--help does not say $option"
done
cli 0 'read-modify-write' bench --help
cli 0 '^cordma-kv-cli [0-9]' --version

# free_port: prints a port that is free at present; another program may take it before it is used.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# start COMMAND...: starts a server in the background and returns once it answers cordma-kv-cli.
start() {
  local waited
  "$@" > server.log 2>&1 &
  server=$!
  background+=("$server")
  for ((waited = 0; waited < 200; ++waited)); do
    ! "$programs/cordma-kv-cli" --timeout 1 "${to[@]}" get nothing > answer 2>&1 || return 0
    ! grep -q '^$' answer || return 0  # nil
    kill -0 "$server" 2> /dev/null || break
    sleep 0.05
  done
  cat server.log answer >&2
  fail "$* does not answer"
}

port=$(free_port)
case $door in
  native)
    to=(--server "127.0.0.1:$port")
    start "$programs/cordma-kv" --port 0 --unixsocket "$work/socket" --native-port "$port" --appendonly no \
      --save '' --dir "$work";;
  resp)
    to=(--resp "127.0.0.1:$port")
    start "$programs/cordma-kv" --port "$port" --appendonly no --save '' --dir "$work";;
  redis)
    command -v redis-server > /dev/null || { echo "without redis-server nothing is tried beside it"; exit 77; }
    to=(--resp "127.0.0.1:$port")
    start redis-server --bind 127.0.0.1 --port "$port" --appendonly no --save '' --dir "$work";;
  *) fail "kv_cli.sh PROGRAMS native|resp|redis";;
esac

cat > cli.py <<'PYTHON'
import base64, fcntl, json, os, pty, select, signal, struct, subprocess, sys, tempfile, termios, time

program, door, server, *to = sys.argv[1:]
RESP = door != "native"


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*arguments, code=0, stdin=b"", env=None):
    done = subprocess.run([program, *to, *arguments], input=stdin, capture_output=True, timeout=120, env=env)
    check(done.returncode == code, f"{arguments} ended with {done.returncode}, not {code}: {done.stdout} {done.stderr}")
    return done


def says(output, *arguments, **how):
    done = run(*arguments, **how)
    check(done.stdout == output, f"{arguments} printed {done.stdout}, not {output}")


# One command: its output, byte by byte, and the exit code.
says(b"OK\n", "set", "k", "hello")
says(b"hello\n", "get", "k")
says(b"hello", "--exact", "get", "k")
says(b"\n", "get", "none", code=3)
says(b"", "--exact", "get", "none", code=3)
says(b"null\n", "--json", "get", "none", code=3)
says(b'"hello"\n', "--json", "get", "k")
says(b"\n", "set", "k", "x", "NX", code=3)
says(b"OK\n", "set", "-k", "-1")
says(b"-2\n", "decr", "-k")
every = bytes(range(256)) + b"\r\n"
says(b"OK\n", "-x", "set", "bytes", stdin=every)
says(every, "--exact", "get", "bytes")
check(base64.b64decode(json.loads(run("--json", "get", "bytes").stdout)["base64"]) == every, "JSON loses bytes")
large = os.urandom(3 << 20)
says(b"OK\n", "-x", "set", "large", stdin=large)
says(large, "--exact", "get", "large")
says(b"", "incr", "k", code=1)
check(b"not an integer" in run("incr", "k", code=1).stderr, "no reason")
check("not an integer" in json.loads(run("--json", "incr", "k", code=1).stdout)["error"], "no reason in JSON")
check(b"unknown command" in run("nonsense", code=1).stderr, "a command that is none is one")
check(b"wrong number of arguments" in run("get", code=1).stderr, "get without a key")
check(b"syntax error" in run("set", "k", "v", "SOON", code=1).stderr, "an option that is none")
check(b"syntax error" in run("set", "k", "v", "NX", "XX", code=1).stderr, "conditions that exclude each other")
check(b"syntax error" in run("scan", "0", "COUNT", "0", code=1).stderr, "a scan of nothing")
says(b"OK\n", "mset", "a", "1", "b", "2")
says(b'["1",null,"2"]\n', "--json", "mget", "a", "none", "b")
says(b"2\n", "exists", "a", "b", "none")
says(b"5\n", "incrby", "a", "4")
says(b"1\n", "expire", "a", "100")
check(98 <= int(run("ttl", "a").stdout) <= 100, "ttl")
says(b"1\n", "persist", "a")
says(b"0\n", "persist", "a")
says(b"-1\n", "ttl", "a")
says(b"-2\n", "pttl", "none")
says(b"1\n", "pexpire", "a", "1")
says(b"OK\n", "set", "e", "v", "PX", "100000")
for past in ["EX", "0"], ["PX", "-1"], ["EXAT", "0"]:
    says(b"", "set", "e", "w", *past, code=1)
check(99000 <= int(run("pttl", "e").stdout) <= 100000, "pttl")
says(b"1\n", "del", "b", "none")
says(b"3\n", "strlen", "abc") if run("set", "abc", "abc").stdout == b"OK\n" else None
many = [word for i in range(700) for word in (f"many{i}", str(i))]
says(b"OK\n", "mset", *many)
check(json.loads(run("--json", "mget", *many[::2]).stdout) == many[1::2], "700 keys")
says(b"700\n", "del", *many[::2])
cursor, keys = "0", set()
while True:
    cursor, some = json.loads(run("--json", "scan", cursor, "COUNT", "5", "MATCH", "[ae]*", "TYPE", "string").stdout)
    keys.update(some)
    if cursor == "0":
        break
check({"e", "abc"} <= keys and all(k[0] in "ae" for k in keys), keys)
check(b"not an integer" in run("scan", "x", code=1).stderr or RESP, "a cursor that is none is one")
check(b"syntax error" in run("scan", "0", "FOR", "x", code=1).stderr, "an option of scan that is none")
if not RESP:
    found = json.loads(run("--json", "gets", "k").stdout)
    check(found["value"] == "hello" and found["pttl"] == -1, found)
    says(b"", "cas", "k", str(found["version"] + 1), "other", code=1)
    newer = int(run("cas", "k", str(found["version"]), "newer").stdout)
    check(newer > found["version"], "a version that does not grow")
    says(b"newer\n", "get", "k")
    says(b"\n", "cas", "none", "1", "x", code=3)
    says(b"OK\n", "set", "k", "hello", "VERSION", str(newer))
    says(b"\n", "set", "k", "x", "VERSION", str(newer), code=3)
    found = json.loads(run("--json", "--transport", "tcp", "connection").stdout)
    check(found["transport"] == "tcp" and found["gets"] == "by request", found)
    found = json.loads(run("--json", "--one-sided", "--transport", "tcp", "connection").stdout)
    check(found["transport"] == "tcp" and found["gets"] == "one-sided", found)
    check(json.loads(run("--json", "--asked", "connection").stdout)["gets"] == "by request", "--asked")
    check(b"note:" not in run("get", "k").stderr, "a note without a reason")
    with tempfile.TemporaryDirectory() as elsewhere:
        apart = os.environ | {"CORDMA_SHM_DIRECTORY": elsewhere}
        said = run("get", "k", env=apart).stderr
        reason = json.loads(run("--json", "connection", env=apart).stdout)["reason"]
    check(b"shared memory is not used: " in said and b"tcp: after shm: nobody listens on port" in said, said)
    check("tcp: after shm: nobody listens on port" in reason and not reason.endswith("; "), reason)
    check(b"native_connections:1" in run("info").stdout, "info")
    check(run("info", "memory").stdout.startswith(b"# Memory\r\nused_memory:"), "info memory")
else:
    says(b'{"f":"1"}\n', "--resp3", "--json", "hgetall", "h") if run("hset", "h", "f", "1") else None

# A full disk is an error.
with open("/dev/full", "w") as full:
    done = subprocess.run([program, *to, "get", "k"], stdout=full, stderr=subprocess.PIPE, timeout=60)
check(done.returncode == 1 and b"standard output" in done.stderr, done)
done = subprocess.run([program, "--server", "127.0.0.1:2", "get", "k"], capture_output=True, timeout=60)
check(done.returncode == 1 and done.stderr != b"", done)

# The shell, with commands from a pipe.
says(b"OK\na b\n1\n", stdin=b'set q "a b"\n# no command\n\nget q\ndel q\nquit\nget k\n')
done = run(stdin=b'get "\nnonsense\nget k\n', code=1)
check(done.stdout == b"hello\n" and b"quote" in done.stderr and b"unknown" in done.stderr, done)
check(b"history" in run(stdin=b"help\n").stdout, "no help")


def typed(pieces, columns=80):
    """What a terminal shows where somebody types this, a piece each time there is a prompt; and how it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([program, *to], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    pieces, typed_on = list(pieces), -1
    deadline = time.monotonic() + 60
    while True:
        check(select.select([ours], [], [], max(deadline - time.monotonic(), 0))[0], f"nothing more is shown: {shown}")
        try:
            data = os.read(ours, 4096)
        except OSError:  # the last process that had it open has closed it
            break
        shown += data
        before, _, fresh = shown.rpartition(b"\n")
        if pieces and b"> \x1b[K" in fresh and before.count(b"\n") != typed_on:
            typed_on = before.count(b"\n")
            os.write(ours, pieces.pop(0))
    os.close(ours)
    return shown, process.wait(timeout=60)


shown, code = typed([b"get k\r", b"\x1b[A\r", b"gett\x7f k\x1b[D\x01\x05\r", b"ERASED\x15get nono\x17k\r", b"half\x03", b"nonsense\r",
                     b"set terminal \"a\\x1bb\"\r", b"get terminal\r", b"history\r", b"\x04"])
check(code == 0, shown)
check(shown.count(b'"hello"') == 4, f"not four times the value: {shown}")
check(b'"a\\x1bb"' in shown, "a terminal gets what a value says")
check(b"(error)" in shown and b"^C" in shown, shown)
shown, code = typed([b"get " + b"x" * 200 + b"\x01\x05\x02\r", b"quit\r"], columns=40)
check(code == 0 and b"(nil)" in shown, shown)


# Benchmarks.
def bench(*arguments, code=0):
    done = run("--json", "bench", "--warm-up", "0.05", *arguments, code=code)
    return json.loads(done.stdout), done.stderr


quick = ("--records", "2000", "--operations", "2000")
for workload, kinds in {"a": {"read", "update"}, "b": {"read", "update"}, "c": {"read"}, "d": {"read", "insert"},
                        "f": {"read", "read-modify-write"}, "get": {"read"}, "set": {"update"}}.items():
    for more in ((), ("--batch", "8", "--clients", "2")):
        found, _ = bench("--workload", workload, *quick, *more)
        check(set(found["latency_us"]) == kinds | {"all"}, found)
        check(found["misses"] == 0 and found["wrong"] == 0 and found["failures"] == 0 and found["valid"], found)
        check(found["operations"] > 0 and found["rate_hz"] > 0, found)
        all_ = found["latency_us"]["all"]
        check(all_["min"] <= all_["p50"] <= all_["p99"] <= all_["max"], all_)
        check(sum(found["latency_us"][k]["n"] for k in kinds) == found["operations"] == all_["n"], found)
        if not RESP:
            paths = found["paths"]
            reads = sum(found["latency_us"].get(k, {"n": 0})["n"] for k in ("read", "read-modify-write"))
            # alone: no batch contains both a set and a get.
            alone = more == () and reads > 0 or kinds == {"read"}
            check((paths["one_sided"] > 0.9 * reads) == alone, found)
found, _ = bench("--records", "1000", "--operations", "3333", "--clients", "2", "--server-pid", server)
check(found["operations"] == 3333, found)
check(found["cpu"]["server"]["ns"] > 0 and found["cpu"]["client"]["ns"] > 0, found)
check(found["conditions"]["kernel"] and found["schema"] == "cordma-kv-bench/1", found)
found, _ = bench("--workload", "c", "--records", "2000", "--target", "1k", "--operations", "500")
check(found["elapsed_s"] > 0.45 and found["target_hz"] == 1000, f"500 at 1000 a second take {found['elapsed_s']} s")
found, _ = bench("--workload", "load", "--records", "1.5k", "--value-bytes", "100")
check(found["load_s"] > 0 and "latency_us" not in found, found)
says(b"100\n", "strlen", "user000000001499")
table = run("bench", "--workload", "c", *quick, "--warm-up", "0").stdout.decode()
for part in ("workload c: reads", "loaded in", "p99.9 us", "read  ", "CPU: client"):
    check(part in table, f"no {part!r} in {table}")
found, _ = bench("--workload", "get", "--no-load", "--records", "1M", "--operations", "1000")
check(found["misses"] > 0, "records that are not there are found")
says(b"OK\n", "set", "user000000000000", "of somebody else")
found, errors = bench("--workload", "get", "--no-load", "--records", "1", "--operations", "100", code=1)
check(found["wrong"] > 0 and not found["valid"] and b"another key's" in errors, found)
if RESP:
    run("del", "user000000000000")
    run("hset", "user000000000000", "f", "v")
    found, errors = bench("--workload", "get", "--no-load", "--records", "1", "--operations", "100", code=1)
    check(found["failures"] > 0 and b"WRONGTYPE" in errors, found)
    run("del", "user000000000000")


def interrupted(*arguments, signals=1):
    process = subprocess.Popen([program, *to, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    return output, process.returncode


# Ctrl-C prints the figures measured until then.
output, code = interrupted("--json", "bench", "--records", "100", "--duration", "60", "--warm-up", "0")
check(code == 130 and json.loads(output)["interrupted"] is True, (code, output))
output, code = interrupted("latency")
check(code == 0 and b"p99.9" in output and b"set" in output, (code, output))
output = run("--json", "latency", "--duration", "0.1", "--value-bytes", "1k").stdout
kinds = json.loads(output)["latency_us"]
check(set(kinds) == ({"get", "set"} if RESP else {"get, one-sided", "get, asked", "set"}), kinds)
check(all(k["n"] > 0 and k["min"] <= k["p50"] <= k["max"] for k in kinds.values()), kinds)
left = run("--json", "keys", "cordma-kv-cli*") if RESP else None
check(left is None or left.stdout == b"[]\n", left)

# Passwords.
if RESP:
    says(b"OK\n", "config", "set", "requirepass", "secret")
    check(b"NOAUTH" in run("get", "k", code=1).stderr, "no password, and it is let in")
    with open("token", "w") as file:
        file.write("secret\nand more\n")
    says(b"hello\n", "--token-file", "token", "get", "k")
    says(b"hello\n", "--token-file", "token", "--user", "default", "--resp3", "get", "k")
    says(b"hello\n", "get", "k", env={**os.environ, "CORDMA_KV_TOKEN": "secret"})
    check(b"WRONGPASS" in run("get", "k", code=1, env={**os.environ, "CORDMA_KV_TOKEN": "other"}).stderr, "any password does")
PYTHON
python3 cli.py "$programs/cordma-kv-cli" "$door" "$server" "${to[@]}"

if [ "$door" = native ]; then
  # The other door, which is a socket file.
  [ "$(echo 'get k' | "$programs/cordma-kv-cli" --resp "$work/socket")" = hello ] || fail "the doors have not the same keys"
fi

# A server that was killed is reported as an error, without waiting for it.
{ kill -9 "$server" && wait "$server"; } 2> /dev/null || true
cli 1 'cordma-kv-cli: ' --timeout 2 "${to[@]}" get k

# A token is required, and must be the right one.
if [ "$door" = native ]; then
  printf 'secret\nand more\n' > token
  printf 'other\n' > wrong
  port=$(free_port)
  to=(--server "127.0.0.1:$port" --token-file token)
  start "$programs/cordma-kv" --port 0 --native-port "$port" --native-token-file token --appendonly no --save '' --dir "$work"
  cli 1 'another token' --server "127.0.0.1:$port" get k
  cli 1 'another token' --server "127.0.0.1:$port" --token-file wrong get k
  cli 0 'OK' "${to[@]}" set k v
  [ "$(CORDMA_KV_TOKEN=secret "$programs/cordma-kv-cli" --server "127.0.0.1:$port" get k)" = v ] || fail "CORDMA_KV_TOKEN"
fi
