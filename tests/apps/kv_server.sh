#!/usr/bin/env bash
# cordma-kv as a service: kv_server.sh PROGRAMS uring|asio. With redis-cli and redis-benchmark.
. "$(dirname "$0")/expect.sh"
io=$2
for needed in redis-cli redis-benchmark openssl; do
  command -v "$needed" > /dev/null || { echo "without $needed nothing is tried"; exit 77; }
done
cd "$work"
mkdir data

file=()  # a configuration
# start ARGUMENT...: a server that is ready, on a port that nobody has; sets server, port and log.
start() {
  local attempt waited
  for attempt in $(seq 20); do
    port=$((20000 + (RANDOM << 2 | attempt & 3) % 12000))
    : > log
    "$programs/cordma-kv" "${file[@]}" --port "$port" --io "$io" --dir "$work/data" "$@" > log 2>&1 &
    server=$!
    background+=("$server")
    for ((waited = 0; waited < 600; ++waited)); do
      ! grep -q ' ready$' log || return 0
      kill -0 "$server" 2> /dev/null || break
      sleep 0.05
    done
    grep -q 'another program has it' log || { cat log >&2; fail "cordma-kv $* does not start"; }
  done
  fail "no port is free"
}
# ends CODE: what the server that was started last ends with.
ends() {
  local got=0
  wait "$server" || got=$?
  [ "$got" -eq "$1" ] || { cat log >&2; fail "it ended with $got, not $1"; }
}
cli() { timeout 20 redis-cli -p "$port" "$@"; }
says() {  # says TEXT COMMAND...: redis-cli prints that
  local wanted=$1 got
  shift
  got=$("$@" 2>&1) || true
  [ "$got" = "$wanted" ] || { cat log >&2; fail "$*: '$got', not '$wanted'"; }
}
logged() {  # logged REGEX: within 10 seconds
  local waited
  for ((waited = 0; waited < 200; ++waited)); do
    ! grep -Eq -e "$1" log || return 0
    sleep 0.05
  done
  cat log >&2
  fail "the log has no line like: $1"
}

echo '== help, version, and what is wrong with a configuration'
expect 0 '--maxmemory-policy' cordma-kv --help
expect 0 '^cordma-kv [0-9]' cordma-kv --version
printf 'port 7000\nmaxmemry 1gb\n' > wrong.conf
expect 2 'wrong.conf: line 2: "maxmemry" is no setting of cordma-kv; did you mean "maxmemory"' \
  cordma-kv wrong.conf
expect 2 '--prot: .* did you mean "port"' cordma-kv --prot 1
expect 2 'daemonize: .*systemd' cordma-kv --daemonize yes
expect 2 'nowhere.conf: .*No such file' cordma-kv nowhere.conf
expect 1 'bind: "no.such.host.invalid" is no address' cordma-kv --bind no.such.host.invalid --port 7000
expect 1 'dir: /nowhere' cordma-kv --dir /nowhere
expect 1 'nobody can come' cordma-kv --port 0 --dir data
printf 'port 0\nunixsocket %s/s\n' "$work" > right.conf
expect 0 'the configuration is right' cordma-kv right.conf --check-config

echo '== TCP and a unix socket'
start --unixsocket "$work/kv.sock" --unixsocketperm 700 --pidfile "$work/pid" --save ''
says PONG cli PING
says OK cli SET key value
says value timeout 20 redis-cli -s "$work/kv.sock" GET key
[ "$(stat -c %a kv.sock)" = 700 ] || fail "the socket has permission $(stat -c %a kv.sock)"
[ "$(cat pid)" = "$server" ] || fail "the pid file has $(cat pid)"
grep -q "listening: tcp 127.0.0.1:$port" log || fail "the log does not say where it listens"
! "$programs/cordma-kv" --port "$port" --dir data 2> second || fail "two servers have one port"
grep -q 'another program has it' second || fail "the second says: $(cat second)"
head -c 3000000 /dev/zero | tr '\0' x > long
says OK cli -x SET long < long
says 3000000 cli STRLEN long
timeout 60 redis-benchmark -p "$port" -n 20000 -c 50 -P 16 -t set,get -q > bench
grep -q 'GET: ' bench || fail "redis-benchmark: $(cat bench)"
kill -TERM "$server"
ends 0
[ ! -e kv.sock ] && [ ! -e pid ] || fail "the socket or the pid file is left"

echo '== what is acknowledged is there after SIGTERM, whatever goes on'
start --appendonly yes --appendfsync everysec --save ''
for client in 1 2 3 4; do
  (i=0
    while reply=$(cli SET "c$client:$((i + 1))" x 2> /dev/null) && [ "$reply" = OK ]; do i=$((i + 1)); done
    echo "$i" > "acknowledged.$client") &
  clients[client]=$!
done
logged ready
timeout 60 redis-benchmark -p "$port" -n 100000000 -c 20 -P 16 -t incr -q > /dev/null 2>&1 &
loader=$!
background+=("$loader")
until [ "$(cli DBSIZE)" -gt 200 ]; do sleep 0.05; done
kill -TERM "$server"
ends 0
kill "$loader" 2> /dev/null || true
for client in 1 2 3 4; do wait "${clients[client]}" || true; done
start --appendonly yes --save ''
for client in 1 2 3 4; do
  n=$(cat "acknowledged.$client")
  [ "$n" -eq 0 ] || says x cli GET "c$client:$n"
done
echo '== SHUTDOWN ends it as well'
cli SHUTDOWN NOSAVE > /dev/null 2>&1 || true
ends 0
rm -rf data/*

echo '== a snapshot is made at the end where that is configured, and found again'
start --save '3600 1'
says OK cli SET kept yes
kill -INT "$server"
ends 0
start --save ''
says yes cli GET kept
grep -q 'loaded the snapshot: ' log || fail "the log does not say that it loaded"
kill -TERM "$server"
ends 0
rm -rf data/*

echo '== a damaged journal keeps it from starting, and what it says to do mends it'
start --appendonly yes --save ''
for key in one two three four five six; do says OK cli SET "$key" value; done
kill -TERM "$server"
ends 0
expect 0 'the journal is whole' cordma-kv --check-aof data
increment=$work/data/appendonlydir/appendonly.aof.1.incr.ckv
printf '~' | dd of="$increment" bs=1 seek=$(($(stat -c %s "$increment") * 2 / 3)) conv=notrunc status=none
expect 1 "it cannot start: .*$increment" cordma-kv --port "$port" --dir data --appendonly yes
advice=$(sed -n 's/.*`cordma-kv \(.*\)`.*/\1/p' output)
[ "$advice" = "--check-aof $increment --fix" ] || fail "its advice is: $advice"
for what in data data/appendonlydir data/appendonlydir/appendonly.aof.manifest "$increment"; do
  expect 1 'the journal is damaged' cordma-kv --check-aof "$what"
done
expect 0 'the journal is mended' cordma-kv $advice
expect 0 'the journal is whole' cordma-kv --check-aof "$increment"
start --appendonly yes --save ''
says value cli GET one
says '' cli GET six
kill -TERM "$server"
ends 0
mkdir data/empty
expect 1 'nowhere' cordma-kv --check-aof nowhere
expect 1 'no journal is there' cordma-kv --check-aof data/empty
expect 2 'stands alone' cordma-kv --check-aof data --port 7
expect 2 'of what' cordma-kv --fix --check-aof
expect 2 'comes with --check-aof' cordma-kv --fix
rm -rf data/*

echo '== a second signal ends it at once'
start --save '' --shutdown-timeout 60
# Somebody who does not read: 30 MB stand in its way.
head -c 10000000 /dev/zero | tr '\0' x > long
says OK cli -x SET long < long
exec {silent}<> "/dev/tcp/127.0.0.1/$port"
printf 'GET long\r\nGET long\r\nGET long\r\n' >&"$silent"
says PONG cli PING
kill -TERM "$server"
logged 'a second signal'
sleep 0.3
kill -0 "$server" || fail "it did not wait for who has not read"
kill -TERM "$server"
ends 1
exec {silent}>&-

echo '== reload'
printf 'maxclients 100\ntcp-backlog 100\nsave ""\n' > kv.conf
file=("$work/kv.conf")
start
says 'maxclients
100' cli CONFIG GET maxclients
printf 'maxclients 200\ntcp-backlog 200\nsave ""\n' > kv.conf
kill -HUP "$server"
logged 'maxclients is now "200"'
logged 'tcp-backlog has changed in the configuration, which takes a restart'
says 'maxclients
200' cli CONFIG GET maxclients
printf 'maxclients many\n' > kv.conf
kill -HUP "$server"
logged 'the configuration stays as it was: .*kv.conf: line 1: '
says PONG cli PING
kill -TERM "$server"
ends 0
file=()

echo '== clients: too many, silent ones, a password'
start --maxclients 2 --timeout 2 --requirepass secret --save ''
exec {one}<> "/dev/tcp/127.0.0.1/$port" {two}<> "/dev/tcp/127.0.0.1/$port"
cli PING > refused 2>&1 || true
grep -q 'ERR max number of clients reached' refused || fail "one too many hears: $(cat refused)"
IFS= read -r -t 20 line <&"$one" && fail "it said: $line" || [ $? -le 1 ] || fail "the silent one is still there"
says PONG cli -a secret --no-auth-warning PING
says 'NOAUTH Authentication required.' cli GET key
exec {one}>&- {two}>&-
kill -TERM "$server"
ends 0

echo '== limits of open files'
(ulimit -n 300; start --save ''; grep -q 'maxclients is 204 and not 10000: the limit of open files is 300' log ||
  { cat log >&2; exit 1; }; kill -TERM "$server"; ends 0) || fail "nothing is said of the limit"

(ulimit -n 300; start --native-port "$((port + 1))" --save ''
  grep -q 'maxclients is 51 and not 10000: the limit of open files is 300, and native clients take up to 4 each' log ||
  { cat log >&2; exit 1; }
  cli CONFIG SET maxclients 52 | grep -q 'not able to handle the specified number of clients, try with 51' || exit 1
  says OK cli CONFIG SET maxclients 50
  kill -HUP "$server"; says PONG cli PING
  kill -TERM "$server"; ends 0) || fail "nothing is said of the limit with native clients"

echo '== figures for Prometheus'
metrics=$((port + 1))
start --metrics-port "$metrics" --save ''
says OK cli SET a b
exec {http}<> "/dev/tcp/127.0.0.1/$metrics"
printf 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n' >&"$http"
timeout 20 cat <&"$http" > figures
exec {http}>&-
for line in 'cordma_kv_keys 1' 'cordma_kv_connected_clients [0-9]' 'cordma_kv_commands_processed_total [1-9]' \
    'cordma_kv_input_bytes_total{worker="0"} [1-9]'; do
  grep -q "^$line" figures || { cat figures >&2; fail "no line like $line"; }
done
kill -TERM "$server"
ends 0

echo '== several workers'
start --threads 3 --save ''
timeout 60 redis-benchmark -p "$port" -n 30000 -c 30 -r 1000 -t set,get -q > /dev/null
[ "$(cli DBSIZE)" -gt 500 ] || fail "the keys are not there"
kill -TERM "$server"
ends 0

echo '== TLS'
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout kv.key -out kv.pem -days 2 \
  -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2> said
tls=$((port + 1))
start --tls-port "$tls" --tls-cert-file "$work/kv.pem" --tls-key-file "$work/kv.key" --tls-auth-clients no --save ''
if redis-cli --help 2>&1 | grep -q -- --tls; then
  says PONG timeout 20 redis-cli -p "$tls" --tls --cacert kv.pem PING
  says OK timeout 20 redis-cli -p "$tls" --tls --cacert kv.pem -x SET long < long
  says 10000000 timeout 20 redis-cli -p "$tls" --tls --cacert kv.pem STRLEN long
else
  says +PONG sh -c "printf 'PING\r\nQUIT\r\n' | timeout 20 openssl s_client -quiet -connect 127.0.0.1:$tls \
    -CAfile kv.pem -verify_return_error 2> said | head -n 1 | tr -d '\r'"
fi
kill -TERM "$server"
ends 0
