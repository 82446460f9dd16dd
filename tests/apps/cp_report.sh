# The output of a transfer for people and scripts: usage errors, lines, summaries, progress, exit
# codes.
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp "${@:3}"; }

# Usage errors end with 1, and the message names the correct usage.
programs=$(realpath "$programs")
cd "$work"
mkdir src
printf hi > src/a
cp_ 1 '--help lists all options'
cp_ 1 'At least 2 required' src
cp_ 1 'not expected: --bogus; --help lists' --bogus src dst
cp_ 1 '--delete needs -r' --delete src dst
cp_ 1 'from 64k to 16M, a multiple of 64k' --chunk 1k -r src dst
cp_ 1 'from 64k to 16M, a multiple of 64k' --chunk 65537 -r src dst
cp_ 1 'from 64k to 16M, a multiple of 64k' --chunk 32M -r src dst
for option in --chunk --memory --bwlimit; do
  for size in x -1 1.5.2 ''; do cp_ 1 "$option|required" "$option=$size" -r src dst; done
done
cp_ 1 '--lanes: Value 0 not in range 1 to 16' --lanes 0 -r src dst
cp_ 1 '--lanes: Value 17 not in range 1 to 16' --lanes 17 -r src dst
cp_ 1 '--port: Value 0 not in range' --port 0 -r src dst
cp_ 1 '--transport: fast not in .auto,shm,tcp,verbs.' --transport fast -r src dst
cp_ 1 '--wait: now not in .polling,event,adaptive.' --wait now -r src dst
cp_ 1 'pattern "\[" has a .\[. that no .\]. ends' --exclude '[' -r src dst
cp_ 1 'token-file: /none: No such file' --token-file /none -r src dst
cp_ 1 'no token in its first line' --token-file /dev/null -r src dst
cp_ 1 'sources are all here, or all in one module' h:m/x src dst
cp_ 1 'both elsewhere: run cordma-cp on one of them' h:m/x b:m/x
[ ! -e dst ] || fail "something was done in spite of a usage error"
cp_ 0 'Examples' --help
for option in --archive --exclude --delete --bwlimit --inplace --no-resume --reconnect --json --stats --progress --token-file; do
  grep -qe "$option" "$work/output" || fail "--help does not say $option"
done

cp_ 0 '^cordma-cp [0-9.]+, protocol [0-9]+$' --version
expect 0 '^cordma-cpd [0-9.]+, protocol [0-9]+$' cordma-cpd --version

# The other exit codes.
cp_ 10 'unreachable|refused' --transport tcp src/a 127.0.0.1:box/ --port 1
long=$(printf '%300s' '' | tr ' ' a)
cp_ 3 "a{300}: File name too long" src/a "dst/$long"
cp_ 3 "a{300}: File name too long" -n src/a "dst/$long"
cp_ 23 'File name too long' "$(printf '%70000s' '' | tr ' ' a)" dst/
cp_ 1 'a{32}..." is longer than 65535' src/a "$(printf '%70000s' '' | tr ' ' a)"
# An option with an empty value does not consume the next argument.
mkdir none
cp_ 1 'chunk= needs a value' --chunk= 1M src/a none/
cp_ 1 'exclude= needs a value' --exclude= src/a src/a none/
cp_ 0 '^1 files' --exclude --chunk= --exclude=--lanes= src/a none/b
seq 66000 > rules
cp_ 1 'no more than 65536 rules' -r --exclude-from rules src dst/
for i in $(seq 20000); do echo "some-name-that-is-long-enough-to-be-too-much-with-all-others-$i"; done > rules
cp_ 1 'bytes of both, are taken' -r --exclude-from rules src dst/
head -n 12000 rules > fewer
cp_ 0 '' -r --exclude-from fewer src dst/
# A file larger than the file size limit of the process.
mkdir limited
truncate -s 30M limited/large
echo small > limited/small
(ulimit -f 20000 && cp_ 23 'large: File too large' -r limited/ dst/limited/)
cmp limited/small dst/limited/small || fail "a file that is too large costs others"
cp_ 11 'json: /none/x: No such file' -r --json /none/x src dst
cp_ 3 'Not a directory' -r src/ src/a
for transport in shm tcp; do
  for i in 1 2 3 4 5; do cp_ 3 'Not a directory' --transport $transport -r src src/a; done
done
rm -r dst

cat > report.py <<'PYTHON'
import json, os, pty, re, signal, struct, subprocess, sys, termios, fcntl, time

program = sys.argv[1] + "/cordma-cp"


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*arguments, code=0):
    done = subprocess.run([program, *arguments], capture_output=True, timeout=120)
    check(done.returncode == code, f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done


def figures(*arguments, code=0):
    done = run("--json", "-", *arguments, code=code)
    return json.loads(done.stdout), done.stderr


os.makedirs("tree/sub")
names = {"tree/a": b"1", "tree/sub/b": b"22", "tree/sub/new\nline": b"333", "tree/\xff".encode("latin1"): b"4444"}
for name, contents in names.items():
    with open(name, "wb") as file:
        file.write(contents)
os.mkfifo(b"tree/pipe\xff\\#377")

# -n prints the pending actions and performs none; -v prints one line for each action.
lines = [b"new      sub/", b"new      a", b"new      sub/b", b"new      sub/new\\x0aline", b"new      \xff", b"new      pipe\xff\\#377"]
dry = run("-an", "tree/", "there/").stdout.split(b"\n")
check(not os.path.exists("there"), "a dry run made its target")
said = run("-av", "tree/", "there/").stdout.split(b"\n")
for line in lines:
    check(line in dry and line in said, f"no line {line!r} in {dry} or {said}")
check(sum(line.startswith(b"new ") for line in said) == len(lines), f"another number of lines: {said}")
check(any(line.startswith(b"over shm (") for line in said), "the transport is not said")
check(b"would copy 4 files, 10 B" in b"\n".join(dry), f"no summary: {dry}")
check(b"updated  a" in run("-avI", "--exclude", "sub", "tree/", "there/").stdout, "-v says nothing of what is copied again")
check(run("-aq", "tree/", "there/").stdout == b"", "-q says more than errors")

# --json prints one object, with any file names, and nothing else to standard output.
found, errors = figures("-rtv", "tree/", "json/")
check(found["schema"] == "cordma-cp/1" and found["exit_code"] == 0 and found["files"] == 4 and found["bytes"] == 10, found)
check(found["transport"] in ("shm", "tcp") and found["interrupted"] is False and found["error"] == "", found)
check([(p["kind"], p["path"]) for p in found["problems"]] == [("left out", "pipe\\#377\\#134#377")], found["problems"])
check(b"left out: pipe\xff\\#377: is a FIFO; --specials copies it" in errors, errors)
found, _ = figures("-a", "tree/", "json/")
check(found["files"] == 0 and found["same"] == 4, found)
run("-a", "--json", "figures", "tree/", "file/")
with open("figures") as file:
    check(json.load(file)["files"] == 4, "a file has no figures")
found, _ = figures("-a", "--transport", "tcp", "tree/none", "json/", code=23)
check(found["exit_code"] == 23 and found["problems"][0]["kind"] == "failed", found)
found, _ = figures("-a", "--transport", "tcp", "--port", "1", "tree/", "127.0.0.1:x/", code=10)
check(found["exit_code"] == 10 and found["error"] != "", found)

stats = run("-a", "--stats", "tree/", "stats/").stdout.decode()
for part in ("found 4 files, 10 B", "CPU of this process: ", "peak memory ", "over shm: "):
    check(part in stats, f"--stats does not say {part!r}: {stats}")

# --inplace writes to the existing file; without it, the file is replaced.
os.makedirs("in")
with open("in/a", "w") as file:
    file.write("an old one that is longer")
node = os.stat("in/a").st_ino
run("-a", "--inplace", "tree/a", "in/")
check(os.stat("in/a").st_ino == node and open("in/a").read() == "1", "--inplace exchanged the file, or left some of it")
run("-aI", "tree/a", "in/")
check(os.stat("in/a").st_ino != node, "a file was written into")

# --bwlimit is not exceeded: the last of four pieces arrives 1.5 s after the first.
with open("slow", "wb") as file:
    file.write(os.urandom(2 << 20))
found, errors = figures("--bwlimit", "1M", "slow", "slowly")
check(found["elapsed_s"] >= 1.4, f"2 MiB at 1 MiB/s took {found['elapsed_s']} s")
found, _ = figures("--bwlimit", "1.5m", "slow", "slowly again")
check(found["elapsed_s"] >= 0.9, f"2 MiB at 1.5 MiB/s took {found['elapsed_s']} s")
check(errors == b"", f"there is no terminal, and progress was shown: {errors}")


def on_terminal(columns, *arguments, interrupt_at=None):
    """What the program shows on a terminal, and how it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # the last process that had it open has closed it
            break
        shown += data
        if interrupt_at is not None and interrupt_at in shown:
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    os.close(ours)
    return shown.decode(), process.wait(timeout=60)


for columns in (20, 40, 80):
    shown, code = on_terminal(columns, "--bwlimit", "1M", "slow", f"slow {columns}")
    check(code == 0, f"ended with {code}: {shown}")
    lines = [line.replace("\x1b[K", "") for line in shown.split("\r")]
    check(len([line for line in lines if line]) >= 2, f"no progress on a terminal: {shown!r}")
    check(max(map(len, lines)) < columns, f"a line as long as the terminal of {columns}: {lines}")
    check(shown.endswith("\r\x1b[K") and "\n" not in shown, f"not left clean: {shown!r}")
    for part in ("%", "B/s", "s") + ((" of ", "/1 files") if columns == 80 else ()):
        check(any("%" in line and part in line for line in lines), f"no {part} at {columns}: {lines}")
    check(any(re.search("% .*B/s.* [0-9]+ ?s", line) for line in lines), f"no time that is left at {columns}: {lines}")
check(on_terminal(80, "-q", "--bwlimit", "1M", "slow", "quiet") == ("", 0), "-q shows progress")

# Ctrl-C prints how to continue, and the received data is kept.
with open("large", "wb") as file:
    file.truncate(40 << 20)
    file.write(os.urandom(40 << 20))
arguments = ("--json", "figures", "-t", "large", "large again")
shown, code = on_terminal(80, "--bwlimit", "20M", *arguments, interrupt_at=b"%")
check(code == 20 and "interrupted; the same command goes on with what is not whole" in shown, f"{code}: {shown!r}")
with open("figures") as file:
    found = json.load(file)
check(found["interrupted"] is True and found["exit_code"] == 20, found)
check(not os.path.exists("large again"), "half a file has its name")
run(*arguments)
with open("figures") as file:
    found = json.load(file)
check(found["resumed_bytes"] > 0, f"it did not go on: {found}")
with open("large", "rb") as one, open("large again", "rb") as other:
    check(one.read() == other.read(), "it is another file")
# --no-resume starts again from the beginning.
shown, code = on_terminal(80, "--bwlimit", "20M", "-t", "large", "anew", interrupt_at=b"%")
check(code == 20, f"{code}: {shown!r}")
check(figures("--no-resume", "-t", "large", "anew")[0]["resumed_bytes"] == 0, "--no-resume goes on")
check(not any("cordma" in name for name in os.listdir(".")), f"something is left over: {os.listdir('.')}")
PYTHON
python3 report.py "$programs"
