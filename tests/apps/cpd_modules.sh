# The modules of cordma-cpd and their access rules: an error in the configuration is reported, and
# never admits more clients.
source "$(dirname "$0")/expect.sh"

mkdir "$work/box"
printf '1234' > "$work/box/file"
refused() {  # refused REGEX JSON [MODE]
  printf '%s' "$2" > "$work/config"
  chmod "${3:-600}" "$work/config"
  expect 1 "$1" cordma-cpd --config "$work/config" --listen 127.0.0.1:0
}
module() { printf '{"modules": [{"name": "box", "path": "%s", %s}]}' "$work/box" "$1"; }

# Invalid JSON and its position, unknown keys, and values of another type.
refused 'line 2, column' $'{"modules":\n  [}'
refused 'line 1' ''
refused 'an object is needed' '[]'
refused 'there is no key "module"' '{"module": []}'
refused 'modules: a list' '{"modules": {"name": "box"}}'
refused 'each is ' '{"modules": [1]}'
refused 'each is ' '{"modules": [{"path": "/tmp"}]}'
refused 'listen: a text' '{"listen": 7}'
refused 'listen: ' '{"listen": "nowhere", "modules": []}'
refused 'nothing to serve' '{"modules": []}'
refused 'module "box": it has no path' '{"modules": [{"name": "box"}]}'
refused 'module "box": there is no key "readonly"' "$(module '"readonly": true')"
refused 'module "box": read_only: true or false' "$(module '"read_only": "no"')"
refused 'module "box": whole_disk: true or false' "$(module '"whole_disk": 1')"
refused 'module "box": token: a text' "$(module '"token": 12345678')"
refused 'module "box": path: /none: No such file' '{"modules": [{"name": "box", "path": "/none"}]}'
refused 'is no directory' "{\"modules\": [{\"name\": \"box\", \"path\": \"$work/box/file\"}]}"
for name in '' a/b a:b; do refused 'a name is not empty' "{\"modules\": [{\"name\": \"$name\", \"path\": \"$work\"}]}"; done
refused 'two modules are called "box"' "{\"modules\": [{\"name\": \"box\", \"path\": \"$work\"}, {\"name\": \"box\", \"path\": \"$work\"}]}"

# Addresses of permitted clients.
for hosts in '[]' null '"10.0.0.0/8"' '{}'; do refused 'hosts: a list' "$(module "\"hosts\": $hosts")"; done
refused 'hosts: a text' "$(module '"hosts": [10]')"
for host in 10.0.0.0/33 ::1/129 10.0.0.0/ 10.0.0.0/x 10.0.0.0/-1 10.0.0 example.org ''; do
  refused "hosts: \"$host\"" "$(module "\"hosts\": [\"$host\"]")"
done

# Tokens: an empty or short token and a token file that others may read are refused.
refused 'an empty token' "$(module '"token": ""')"
refused 'soon guessed' "$(module '"token": "1234567"')"
refused 'others may read it' "$(module '"token": "long enough"')" 640
refused 'others may read it' "$(module '"token": "long enough"')" 604
: > "$work/empty"
printf '\nsecond line\n' > "$work/blank"
refused 'token_file: .*none: No such file' "$(module "\"token_file\": \"$work/none\"")"
expect 1 'token-file: .*none: No such file' cordma-cpd --module "box=$work/box" --token-file "$work/none"
for file in empty blank; do
  refused 'token_file: .* has no token in its first line' "$(module "\"token_file\": \"$work/$file\"")"
  expect 1 'token-file: .* has no token in its first line' cordma-cpd --module "box=$work/box" --token-file "$work/$file"
done

# The complete disk is served only if this is confirmed, under any path that leads to it.
ln -s / "$work/root"
for path in / // /. /tmp/.. "$work/root"; do
  refused 'serves the whole disk' "{\"modules\": [{\"name\": \"all\", \"path\": \"$path\"}]}"
  expect 1 'serves the whole disk' cordma-cpd --module "all=$path"
done
refused 'two modules' "{\"modules\": [{\"name\": \"all\", \"path\": \"/\", \"whole_disk\": true}, {\"name\": \"all\", \"path\": \"/\", \"whole_disk\": true}]}"

# A daemon with all of this: a read-only module, modules for other hosts, and a token that is never
# printed.
printf 'a secret of mine\n' > "$work/token"
mkdir "$work/drop"
cat > "$work/config" <<CONFIG
{"listen": "127.0.0.1:0",
 "modules": [{"name": "docs", "path": "$work/box"},
             {"name": "far", "path": "$work/box", "hosts": ["10.0.0.0/8", "::2"]},
             {"name": "near", "path": "$work/box", "hosts": ["10.0.0.0/8", "127.0.0.0/8"]},
             {"name": "drop", "path": "$work/drop", "read_only": false, "token_file": "$work/token"}]}
CONFIG
serve cordma-cpd --config "$work/config" --transport tcp
daemon=$server
port=${address##*:}
cp_() { expect "$1" "$2" cordma-cp --transport tcp --port "$port" "${@:3}"; }
cp_ 0 '^1 files' 127.0.0.1:docs/file "$work/got"
cp_ 5 'read-only' "$work/box/file" 127.0.0.1:docs/
cp_ 0 '^1 files' 127.0.0.1:near/file "$work/near"
cp_ 5 'no module "far"' 127.0.0.1:far/file "$work/far"
cp_ 5 'no module "none"' 127.0.0.1:none/file "$work/none"
cp_ 5 'no module "drop"' "$work/box/file" 127.0.0.1:drop/
cp_ 5 'no module "drop"' --token-file "$work/config" "$work/box/file" 127.0.0.1:drop/
cp_ 1 'no token in its first line' --token-file "$work/blank" "$work/box/file" 127.0.0.1:drop/
[ -z "$(ls -A "$work/drop")" ] || fail "something was written without the token"
# The path that a client sends cannot forge a line of the log.
expect 5 'no module' cordma-cp --transport tcp --port "$port" $'127.0.0.1:a\nlistening on b\e[2J/x' "$work/x"
! grep -q '^listening on b' "$work/served" || fail "a client wrote a line into the log"
grep -q "WARNING: module \"drop\": everybody on this machine may read its token: chmod 600 $work/token" "$work/served" ||
  fail "a token that everybody may read is not warned of: $(cat "$work/served")"
! grep -q 'WARNING.*may write' "$work/served" || fail "a module with a token is said to be open"
! grep -q $'\e' "$work/served" || fail "a client wrote to the terminal of the daemon"

# All bytes on the wire, recorded by a proxy.
cat > "$work/wire.py" <<'PYTHON'
import socket, sys, threading

port, out = int(sys.argv[1]), open(sys.argv[2], "wb")
lock = threading.Lock()
listener = socket.create_server(("127.0.0.1", 0))
print("listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)


def carry(a, b):
    try:
        while data := a.recv(65536):
            with lock:
                out.write(data)
                out.flush()
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


while True:
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
PYTHON
programs_here=$programs
programs=$(dirname "$(command -v python3)")
: > "$work/wire"
serve python3 "$work/wire.py" "$port" "$work/wire"
programs=$programs_here
port=${address##*:}
cp_ 0 '^1 files' --token-file "$work/token" "$work/box/file" 127.0.0.1:drop/
cmp "$work/box/file" "$work/drop/file"
[ -s "$work/wire" ] || fail "nothing was listened in to"
grep -aq drop "$work/wire" || fail "the wire shows nothing of the hello"
! grep -aq 'a secret of mine' "$work/wire" || fail "the token went over the wire"
CORDMA_CP_TOKEN='a secret of mine' cp_ 0 '^0 files|^1 files' "$work/box/file" 127.0.0.1:drop/
! tr '\0' ' ' < "/proc/$daemon/cmdline" | grep -q secret || fail "the token is in the daemon's command line"
! grep -q 'a secret of mine' "$work/served" || fail "the token is in the log"

# A module that everyone may write causes a warning.
chmod 600 "$work/token"
serve cordma-cpd --listen 127.0.0.1:0 --module-rw "open=$work/drop"
grep -q 'WARNING: module "open": whoever reaches 127.0.0.1:0 may write, change and delete in it' "$work/served" ||
  fail "a module that everybody may write is not warned of: $(cat "$work/served")"
serve cordma-cpd --listen 127.0.0.1:0 --module "open=$work/drop" --module-rw "drop=$work/drop" --token-file "$work/token"
! grep -q WARNING "$work/served" || fail "it warns of nothing: $(cat "$work/served")"

# The reader of the daemon's standard error has closed it.
python3 - "$(realpath "$programs")" "$work/box" << 'PYTHON'
import subprocess, sys

def program(name):
    return sys.argv[1] + "/" + name

daemon = subprocess.Popen(
    [program("cordma-cpd"), "--listen", "127.0.0.1:0", "--module", f"box={sys.argv[2]}", "--transport", "tcp"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
port = daemon.stdout.readline().strip().rpartition(":")[2]
daemon.stderr.close()
for _ in range(2):
    asked = subprocess.run([program("cordma-cp"), "--port", port, "127.0.0.1:none/x", sys.argv[2]], capture_output=True)
    if asked.returncode != 5:
        sys.exit(f"FAILED: with no reader of its errors it answers with {asked.returncode}: {asked.stderr}")
daemon.terminate()
if daemon.wait(30) != 0:
    sys.exit(f"FAILED: it ended with {daemon.returncode}")
PYTHON
