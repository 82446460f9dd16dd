# cordma-cp --tls: data on the network cannot be read, changed or truncated unnoticed by a third
# party. Errors with certificates are reported.
source "$(dirname "$0")/expect.sh"
need() { command -v "$1" > /dev/null || { echo "skipped: $1 is missing"; exit 77; }; }
need openssl
need python3

# ---- certificates ----
cd "$work"
new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
authority() { openssl req -x509 "${new_key[@]}" -keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1" 2> said; }
issue() {  # issue NAME AUTHORITY NAMES [DAYS]
  openssl req -new "${new_key[@]}" -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2> said
  printf 'subjectAltName=%s' "$3" > names
  openssl x509 -req -in "$1.csr" -out "$1.pem" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "${4:-2}" \
    -extfile names 2> said
}
authority ca
authority stranger
issue server ca DNS:localhost,IP:127.0.0.1
issue elsewhere ca DNS:other.example
issue expired ca IP:127.0.0.1 -1
printf 'not to be guessed\n' > token
chmod 600 token

# ---- daemons ----
mkdir box
configure() {  # configure NAME CERTIFICATE REQUIRED
  cat > "$1.json" <<JSON
{"listen": "127.0.0.1:0",
 "modules": [{"name": "box", "path": "$work/box", "read_only": false, "token_file": "$work/token"},
             {"name": "open", "path": "$work/box"}],
 "tls": {"certificate": "$work/$2.pem", "key": "$work/$2.key", "required": $3}}
JSON
}
start() {  # start NAME ARGUMENT...: starts the daemon with this configuration; sets `port`
  serve cordma-cpd --config "$1.json" "${@:2}"
  port=${address##*:}
}
cp_() { expect "$1" "$2" cordma-cp --port "$port" --token-file token "${@:3}"; }
tls=(--tls --tls-ca ca.pem)

# ---- there and back ----
mkdir -p tree/sub/empty
for i in $(seq 300); do printf 'a secret of file %s' "$i" > "tree/sub/secret name $i"; done
: > tree/zero
head -c 20000003 /dev/urandom > tree/large
head -c 1048576 /dev/urandom > tree/chunk
truncate -s 5M tree/hollow
configure required server true
start required
cp_ 0 'over tcp with TLS, TLS_AES' -a "${tls[@]}" tree/ 127.0.0.1:box/in/
diff -r tree box/in || fail "a tree did not come over TLS as it was"
cp_ 0 '^0 files.*the same' -a "${tls[@]}" --lanes 4 tree/ localhost:box/in/
cp_ 0 'with TLS' -a "${tls[@]}" --lanes 4 --chunk 64k localhost:box/in/ back/
diff -r tree back || fail "a tree did not come back over TLS as it was"
expect 0 'with TLS' cordma-cp --port "$port" "${tls[@]}" --lanes 1 --memory 1M localhost:open/in/large one
cmp tree/large one
cp_ 0 'damaged on the way, and sent again' -a "${tls[@]}" --flip 7 tree/ localhost:box/flipped/
diff -r tree box/flipped || fail "a bit that was wrong before it was encrypted came through"
cp_ 0 '"tls_cipher": "TLS_AES' -a "${tls[@]}" --json - tree/chunk localhost:box/json/

# ---- refused clients, and the reason ----
cp_ 5 'demands TLS: --tls$' tree/chunk 127.0.0.1:box/none/
cp_ 5 'demands TLS: --tls$' --transport tcp tree/chunk 127.0.0.1:box/none/
cp_ 5 'certificate "/CN=server" is signed by "/CN=ca", which is not trusted here: --tls-ca FILE' --tls tree/chunk 127.0.0.1:box/none/
cp_ 5 'which is not trusted here' --tls --tls-ca stranger.pem tree/chunk 127.0.0.1:box/none/
expect 5 'no module "box" for this token' cordma-cp --port "$port" "${tls[@]}" tree/chunk 127.0.0.1:box/none/
cp_ 1 '^cordma-cp: --tls is for tcp: nothing encrypts what goes over shm' --tls --transport shm tree/chunk 127.0.0.1:box/none/
cp_ 1 '^cordma-cp: --tls is for a HOST' --tls tree/chunk none
cp_ 1 '^cordma-cp: --tls-ca: none.pem: No such file' --tls --tls-ca none.pem tree/chunk 127.0.0.1:box/none/
cp_ 1 '^cordma-cp: --tls-ca: token: has no certificate' --tls --tls-ca token tree/chunk 127.0.0.1:box/none/
cp_ 1 'tls-ca requires --tls' --tls-ca ca.pem tree/chunk 127.0.0.1:box/none/
for said in 'it would do without TLS' 'it says no: unknown CA'; do
  grep -q "$said" served || fail "the daemon does not say: $said"
done
configure elsewhere elsewhere false
start elsewhere
cp_ 5 'certificate "/CN=elsewhere" is not one for "127.0.0.1"' "${tls[@]}" tree/chunk 127.0.0.1:box/none/
cp_ 0 'over tcp$' --transport tcp tree/chunk 127.0.0.1:box/plain/
configure expired expired false
start expired
grep -q 'tls: the certificate "/CN=expired" has expired, on 20.*: clients will not trust it' served || fail "the daemon says nothing of its date"
cp_ 5 'certificate "/CN=expired" has expired, on 20' "${tls[@]}" tree/chunk 127.0.0.1:box/none/
serve cordma-cpd --listen 127.0.0.1:0 --module-rw "box=$work/box"
port=${address##*:}
cp_ 5 'has no TLS: its cordma-cpd needs "tls" in its --config' "${tls[@]}" tree/chunk 127.0.0.1:box/none/
[ ! -e box/none ] || fail "who was refused has written something"

# ---- configuration of a daemon ----
refuses() {  # refuses REGEX TLS
  printf '{"modules": [{"name": "box", "path": "%s"}], "tls": %s}' "$work/box" "$2" > wrong.json
  expect 1 "wrong.json: tls: $1" cordma-cpd --config wrong.json
}
refuses 'none.pem: No such file' '{"certificate": "none.pem", "key": "server.key"}'
refuses 'none.key: No such file' '{"certificate": "server.pem", "key": "none.key"}'
refuses 'token: has no certificate' '{"certificate": "token", "key": "server.key"}'
refuses 'token: has no private key' '{"certificate": "server.pem", "key": "token"}'
refuses 'elsewhere.key: is not the key of the certificate in server.pem' '{"certificate": "server.pem", "key": "elsewhere.key"}'
refuses 'needs a "certificate" and its "key"' '{"certificate": "server.pem"}'
refuses 'there is no key "cert"' '{"cert": "server.pem"}'
cp server.key open.key
chmod 644 open.key
refuses 'open.key: is a private key, and others may read it' '{"certificate": "server.pem", "key": "open.key"}'
expect 1 '"tls" is for tcp' cordma-cpd --config required.json --transport shm
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  chmod 711 "$work"
  chmod 644 server.pem wrong.json
  under=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  printf '{"modules": [{"name": "box", "path": "%s"}], "tls": {"certificate": "%s", "key": "%s"}}' \
    "$work/box" "$work/server.pem" "$work/server.key" > wrong.json
  expect 1 'server.key: Permission denied' cordma-cpd --config "$work/wrong.json"
  under=()
fi

# ---- on the network ----
cat > between.py <<'PYTHON'
"""between.py PORT MODE ARGUMENT: between clients and the daemon at PORT, without a part in what they say.
record FILE: all that goes by, both ways. flip PLACE, cut PLACE: on each connection, once so many bytes went one way, a wrong
bit or the end."""
import selectors
import socket
import sys

port, mode, argument = int(sys.argv[1]), sys.argv[2], sys.argv[3]
record = open(argument, "wb", buffering=0) if mode == "record" else None
place = None if record else int(argument)
front = socket.create_server(("127.0.0.1", 0))
print("listening on 127.0.0.1:%d" % front.getsockname()[1], flush=True)
waiting = selectors.DefaultSelector()
waiting.register(front, selectors.EVENT_READ)
other, carried = {}, {}


def end(side):
    for one in (side, other[side]):
        waiting.unregister(one)
        one.close()


while True:
    for key, _ in waiting.select():
        side = key.fileobj
        if side.fileno() < 0:
            continue
        if side is front:
            client, daemon = front.accept()[0], socket.create_connection(("127.0.0.1", port))
            other[client], other[daemon] = daemon, client
            carried[client] = carried[daemon] = 0
            waiting.register(client, selectors.EVENT_READ)
            waiting.register(daemon, selectors.EVENT_READ)
            continue
        try:
            some = side.recv(1 << 16)
            if record:
                record.write(some)
            else:
                at = place - carried[side]
                carried[side] += len(some)
                if 0 <= at < len(some):
                    if mode == "cut":
                        end(side)
                        continue
                    some = some[:at] + bytes([some[at] ^ 1]) + some[at + 1:]
            if not some:
                end(side)
                continue
            other[side].sendall(some)
        except OSError:
            end(side)
PYTHON
between() {  # between MODE ARGUMENT: sets `port`
  local waited=0
  : > between.said
  python3 between.py "$daemon" "$@" > between.said 2>&1 &
  background+=($!)
  until port=$(sed -n 's/^listening on .*://p' between.said) && [ -n "$port" ]; do
    [ $((waited += 1)) -le 600 ] || fail "nobody stands between: $(cat between.said)"
    sleep 0.05
  done
}
configure either server false
start either
daemon=$port
for way in plain tls; do
  how=(--transport tcp)
  [ $way = plain ] || how=("${tls[@]}")
  between record $way.bytes
  cp_ 0 'over tcp' -a "${how[@]}" tree/ "127.0.0.1:box/path over $way/"
  cp_ 0 'over tcp' -a "${how[@]}" "127.0.0.1:box/path over $way/" "$way/"
  diff -r tree "$way" || fail "it was changed on its way"
  [ "$(stat -c %s $way.bytes)" -gt 40000000 ] || fail "not all of it went where it is recorded"
  for text in 'a secret of file 299' 'secret name 299' 'path over'; do
    found=no
    ! grep -aqF "$text" $way.bytes || found=yes
    [ $way:$found = plain:yes ] || [ $way:$found = tls:no ] || fail "\"$text\" over $way: can be read: $found"
  done
  ! grep -aqF 'not to be guessed' $way.bytes || fail "the token was sent"
done

# A wrong bit or an early end in the middle of a file: the file is not created. Without the fault,
# the same command continues.
broken() {  # broken SOURCE TARGET
  local code=0
  timeout 120 "$programs/cordma-cp" --reconnect off --port "$port" --token-file token "${tls[@]}" "$1" "$2" > output 2>&1 || code=$?
  [ $code -eq 10 ] || [ $code -eq 12 ] || fail "$mode at $place: ended with $code: $(cat output)"
}
for mode in flip cut; do
  for place in 3000000 5500001; do
    rm -rf box/broken broken
    between $mode $place
    broken tree/large 127.0.0.1:box/broken/
    broken 127.0.0.1:box/in/large broken/
    [ ! -e box/broken/large ] && [ ! -e broken/large ] || fail "$mode at $place: a file has its name, and not all that is in it"
    port=$daemon
    cp_ 0 '^1 files' "${tls[@]}" tree/large 127.0.0.1:box/broken/
    cp_ 0 '^1 files' "${tls[@]}" 127.0.0.1:box/in/large broken/
    cmp tree/large box/broken/large && cmp tree/large broken/large || fail "$mode at $place: it did not go on well"
  done
done
