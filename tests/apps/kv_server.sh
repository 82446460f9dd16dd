#!/usr/bin/env bash
# cordma-kv as a service, with redis-cli and redis-benchmark: kv_server.sh PROGRAMS uring|asio.
. "$(dirname "$0")/expect.sh"
io=$2
for needed in redis-cli redis-benchmark openssl; do
  command -v "$needed" > /dev/null || { echo "without $needed nothing is tried"; exit 77; }
done
cd "$work"
mkdir data

file=()  # a configuration
# start ARGUMENT...: starts a server on a free port and waits until it is ready; sets server, port
# and log.
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
# ends CODE: the server that was started last exits with CODE.
ends() {
  local got=0
  wait "$server" || got=$?
  [ "$got" -eq "$1" ] || { cat log >&2; fail "it ended with $got, not $1"; }
}
cli() { timeout 20 redis-cli -p "$port" "$@"; }
says() {  # says TEXT COMMAND...: the command prints that text
  local wanted=$1 got
  shift
  got=$("$@" 2>&1) || true
  [ "$got" = "$wanted" ] || { cat log >&2; fail "$*: '$got', not '$wanted'"; }
}
logged() {  # logged REGEX: waits for a matching line for at most 10 seconds
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
printf 'port x\nmaxmemry 1gb\ntimeout -1\n' > wrong.conf
expect 2 'wrong.conf: line 1: "port"' cordma-kv wrong.conf
expect 2 'wrong.conf: line 3: "timeout"' cordma-kv wrong.conf
printf 'port 0\nunixsocket %s/s\nrdbcompression yes\ndaemonize yes\n' "$work" > redis.conf
expect 0 'redis.conf: line 3: "rdbcompression" is a setting of Redis' cordma-kv redis.conf --check-config
expect 0 'redis.conf: line 4: daemonize' cordma-kv redis.conf --check-config
expect 2 '--prot: .* did you mean "port"' cordma-kv --prot 1
expect 2 'daemonize: .*systemd' cordma-kv --daemonize yes
expect 2 'nowhere.conf: .*No such file' cordma-kv nowhere.conf
expect 1 'bind: "no.such.host.invalid" is no address' cordma-kv --bind no.such.host.invalid --port 7000
expect 1 'dir: /nowhere' cordma-kv --dir /nowhere
expect 1 'nobody can come' cordma-kv --port 0 --dir data
printf 'port 0\nunixsocket %s/s\n' "$work" > right.conf
expect 0 'the configuration is right' cordma-kv right.conf --check-config

echo '== --check-config finds what keeps it from starting, and changes nothing'
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout kv.key -out kv.pem -days 2 \
  -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2> said
touch file
echo secret > token
ls -A . data > before
checked() { expect "$1" "$2" cordma-kv --check-config "${@:3}"; }
checked 1 'data: cannot be read' --aclfile "$work/data"
checked 2 'data: Is a directory' "$work/data"
checked 1 'dir: /nowhere: No such file' --dir /nowhere
checked 1 'tls-cert-file: TLS takes a certificate' --tls-port 7001
checked 1 'tls-cert-file: /nowhere' --tls-port 7001 --tls-cert-file /nowhere --tls-key-file "$work/kv.key"
checked 1 'tls-key-file: /nowhere' --tls-port 7001 --tls-cert-file "$work/kv.pem" --tls-key-file /nowhere
checked 1 'aclfile: /nowhere: cannot be read' --aclfile /nowhere
checked 1 'metrics-port and port are both 7001' --port 7001 --metrics-port 7001
checked 1 'native-port and tls-port are both 7001' --tls-port 7001 --tls-cert-file "$work/kv.pem" --tls-key-file "$work/kv.key" \
  --native-port 7001
checked 1 'native-token-file: /nowhere: No such file' --native-port 7379 --native-token-file /nowhere
checked 1 'native-token-file: file has no token' --native-port 7379 --native-token-file file
checked 1 'native-port: at \* whoever reaches it could come in' --native-port 7379 --bind '*'
checked 1 'bind: "no.such.host.invalid" is no address' --bind no.such.host.invalid
checked 1 'listening on 192.0.2.1: ' --bind 192.0.2.1
checked 1 'listening on 192.0.2.1: ' --port 0 --native-port 7379 --requirepass secret --bind 192.0.2.1
checked 1 'bind: none of the addresses' --bind -192.0.2.1
checked 1 'nobody can come' --port 0
checked 1 'nobody can come' --port 0 --metrics-port 7002
checked 1 'unixsocketperm: "999" is no permission' --unixsocketperm 999 --unixsocket s
checked 1 'unixsocket: file is there, and no socket' --unixsocket file
checked 1 'unixsocket: /nowhere/s: No such file' --unixsocket /nowhere/s
checked 1 'logfile: /nowhere/log: No such file' --logfile /nowhere/log
checked 1 'logfile: data: Is a directory' --logfile data
checked 1 'pidfile: /nowhere/pid: No such file' --pidfile /nowhere/pid
checked 1 'appenddirname: file: Not a directory' --appendonly yes --appenddirname file
checked 2 "appenddirname can't be a path" --appenddirname a/b
checked 2 "dbfilename can't be a path" --dbfilename a/b
checked 2 "appendfilename can't be empty" --appendonly yes --appendfilename ''
checked 0 'the configuration is right' --native-port 7379 --native-token-file "$work/token" --threads 2 --io "$io" \
  --tls-port 7001 --tls-cert-file "$work/kv.pem" --tls-key-file "$work/kv.key" --tls-auth-clients no \
  --unixsocket s --logfile log --pidfile pid --appendonly yes --dir data --bind 127.0.0.1 -192.0.2.1
ls -A . data | diff before - || fail "--check-config left something behind"
expect 1 'it cannot start: .*pidfile: /nowhere/pid' cordma-kv --port 0 --unixsocket s --pidfile /nowhere/pid
! grep -q 'listening' output || fail "that the pid file cannot be written is noticed late"

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
start --save '3600 1'
says OK cli SET kept 'as well'
mkfifo data/temp-dump.ckv  # a snapshot that blocks until the FIFO is read
says 'Background saving started' cli BGSAVE
until cli INFO persistence | grep -q '^rdb_bgsave_in_progress:1'; do sleep 0.05; done
kill -TERM "$server"
logged 'ending: '
timeout 20 cat data/temp-dump.ckv > /dev/null
ends 0
start --save ''
says 'as well' cli GET kept
says OK cli CONFIG SET appendonly yes
kill -TERM "$server"
ends 0
start --appendonly yes --save ''
says 'as well' cli GET kept
grep -q 'loaded the journal: ' log || fail "the log does not say that it loaded"
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

echo '== a start that fails leaves what is on the disk as it is'
start --appendonly yes --appendfsync always --save ''
says OK cli SET key value
kill -KILL "$server"
ends 137
printf torn >> "$work/data/appendonlydir/appendonly.aof.1.incr.ckv"
all_of() { (cd "$work/data" && find . -type f -exec cksum {} + | sort); }
all_of > before
manifest=data/appendonlydir/appendonly.aof.manifest
cp -a data saved
# The temporary manifest of a process that was killed while writing it.
cp "$manifest" data/appendonlydir/temp-appendonly.aof.manifest
expect 1 'the journal is damaged' cordma-kv --check-aof data
: > "$manifest"
all_of > emptied
expect 1 'the journal is damaged' cordma-kv --check-aof data
expect 1 'appendonly.aof.manifest: it names no file of a journal' \
  cordma-kv --dir data --appendonly yes --port 0 --unixsocket other.sock
all_of | diff emptied - || fail 'it touched what is there'
printf 'file a\0b seq 1 type b\n' > "$manifest"
expect 1 'appendonly.aof.manifest: line 1 is not as it should be: "file a\\x00b seq 1 type b"$' cordma-kv --check-aof data
rm data/appendonlydir/*manifest
start --appendonly yes --save ''
grep -q 'up to number 1, that no manifest names: they stay' log || fail 'it does not tell of files that it does not read'
kill -TERM "$server"
ends 0
cmp {saved,data}/appendonlydir/appendonly.aof.1.incr.ckv || fail 'a journal without a manifest was written over'
rm -rf data
mv saved data
native=$((port + 1))
start --save '' --native-port "$native" --unixsocket "$work/kv.sock"
taken() { expect 1 "$1" cordma-kv --dir data --appendonly yes "${@:2}"; all_of | diff before - || fail "it touched what is there"; }
taken "port $port: another program has it" --port "$port"
taken "127.0.0.1:$native already" --port 0 --native-port "$native"
taken "kv.sock is served already" --port 0 --unixsocket "$work/kv.sock"
taken "port $port: another program has it" --port 0 --unixsocket "$work/other.sock" --metrics-port "$port"
[ ! -e other.sock ] || fail "a socket is left of what did not start"

echo '== a folder is one server'"'"'s'
cache=$server
cache_port=$port
start --appendonly yes --appendfsync always --save ''
says value cli GET key
all_of > before
taken "another cordma-kv \(process $server\) uses $work/data: end that one first" --port 0 --unixsocket other.sock
expect 1 "another cordma-kv \(process $server\) uses $work/data:" cordma-kv --dir data --port 0 --unixsocket other.sock
expect 1 "another cordma-kv \(process $server\) uses $work/data/appendonlydir: end that one first" \
  cordma-kv --check-aof data --fix
expect 0 'the configuration is right' cordma-kv --check-config --dir data --port "$port" --appendonly yes
keeper=$server
of_cache() { timeout 20 redis-cli -p "$cache_port" "$@"; }
for asked in SAVE BGSAVE 'SHUTDOWN SAVE' 'CONFIG SET appendonly yes' 'CONFIG SET save 60\ 1'; do
  eval "of_cache $asked" > refused 2>&1 || true
  grep -q "^ERR .*another cordma-kv (process $keeper) uses $work/data: " refused || fail "$asked: $(cat refused)"
done
says 'appendonly
no' of_cache CONFIG GET appendonly
all_of | diff before - || fail "one that keeps nothing wrote"
kill -KILL "$keeper"  # the next server may still find it exiting
start --appendonly yes --save ''
says value cli GET key
kill -TERM "$server"
ends 0
wait "$keeper" 2> /dev/null || true
says OK of_cache SAVE
expect 1 "another cordma-kv \(process $cache\) uses $work/data" cordma-kv --dir data --port 0 --unixsocket other.sock
kill -TERM "$cache"
wait "$cache" || fail "the cache did not end as it should"
rm -rf data/*

echo '== native clients at an IPv6 address, and where the first of bind is not of this host'
if "$programs/cordma-kv" --check-config --bind ::1 > said 2>&1; then
  start --bind ::1 127.0.0.1 --native-port "$native" --save ''
  grep -q "listening: native \[::1\]:$native " log || fail "native clients cannot come to ::1"
  kill -TERM "$server"
  ends 0
fi
start --bind -192.0.2.1 127.0.0.1 --native-port "$native" --save ''
grep -q "listening: native 127.0.0.1:$native " log || fail "native clients cannot come to the second address"
kill -TERM "$server"
ends 0

echo '== appendfsync, to and fro where several workers and native clients are: nobody waits for himself'
start --appendonly yes --appendfsync everysec --native-port "$native" --threads 3 --save ''
for policy in always everysec always no always; do
  says OK cli CONFIG SET appendfsync $policy
  says OK cli SET policy $policy
  says $policy timeout 20 "$programs/cordma-kv-cli" --server "127.0.0.1:$native" --one-sided GET policy
done
kill -TERM "$server"
ends 0

if command -v prlimit > /dev/null; then
  echo '== appendfsync always, turned on as a write comes that fails: nobody reads by himself what is not kept'
  trap '' XFSZ
  start --appendonly yes --appendfsync everysec --native-port "$native" --save ''
  trap - XFSZ
  says OK cli SET seen before
  coproc "$programs/cordma-kv-cli" --server "127.0.0.1:$native" --one-sided --timeout 1 2>&1
  reader=$COPROC_PID
  background+=("$reader")
  exec {asked}>&"${COPROC[1]}" {told}<&"${COPROC[0]}"
  by_himself() { echo 'get seen' >&"$asked" && read -r -t 20 value <&"$told"; } 2> /dev/null
  by_himself || fail 'a client does not read'
  [[ $value = *before* ]] || fail "a client reads: $value"
  prlimit --pid "$server" --fsize="$(($(stat -c %s data/appendonlydir/*.incr.ckv | sort -n | tail -n 1) + 20))"
  exec {both}<> "/dev/tcp/127.0.0.1/$port"
  trap '' PIPE  # the server may have closed the connection without a response
  printf 'CONFIG SET appendfsync always\r\nSET seen after\r\n' >&"$both"
  read -r -t 20 first <&"$both" && [[ $first = +OK* ]] || fail "CONFIG SET says: $first"
  for _ in 1 2 3; do
    by_himself || break  # a request waits and times out
    [[ $value != *after* ]] || fail 'what is not on the disk is read'
  done
  ! read -r -t 1 second <&"$both" || [[ $second != +OK* ]] || fail 'what is not on the disk is acknowledged'
  trap - PIPE
  exec {both}>&- {asked}>&- {told}<&-
  kill -KILL "$server"
  wait "$server" 2> /dev/null || true
  start --appendonly yes --save ''
  says before cli GET seen
  kill -TERM "$server"
  ends 0
fi

echo '== a second signal ends it at once'
start --save '' --shutdown-timeout 60
# A client that does not read: 30 MB of responses are pending.
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

echo '== what is owed to the disk is not dropped unasked'
obstacle=data/temp-save-dump.ckv  # a folder at the path that SAVE writes to
for how in TERM 'SHUTDOWN' 'SHUTDOWN SAVE' 'SHUTDOWN NOW'; do
  start --save '3600 1'
  says OK cli SET kept "$how"
  mkdir "$obstacle"
  if [ "$how" = TERM ]; then
    kill -TERM "$server"
  else
    # shellcheck disable=SC2086
    says 'ERR Errors trying to SHUTDOWN. Check logs.' cli $how
  fi
  logged 'it does NOT end'
  says "$how" cli GET kept
  says OK cli SET later yes  # it still serves requests
  rmdir "$obstacle"
  kill -TERM "$server"
  ends 0
  start --save ''
  says yes cli GET later
  says "$how" cli GET kept
  says 1 cli DEL later
  says OK cli SAVE
  kill -TERM "$server"
  ends 0
done
for how in NOSAVE 'SAVE FORCE' FORCE; do
  start --save '3600 1'
  says OK cli SET kept no
  mkdir "$obstacle"
  # shellcheck disable=SC2086
  cli SHUTDOWN $how > "$work/said" 2>&1 || true
  ends 0
  rmdir "$obstacle"
done
start --save '3600 1'
says OK cli SET kept no
mkdir "$obstacle"
kill -TERM "$server"
logged 'it does NOT end'
says OK cli SET kept no  # a signal before that would count as the second of one shutdown
kill -TERM "$server"
logged 'not all is on the disk'
ends 0
rmdir "$obstacle"

# Two requests to shut down: the second may arrive while the first is running.
held_up() {  # a snapshot blocks until the FIFO is read, and the shutdown waits for it
  start --save '3600 1'
  says OK cli SET kept "$1"
  mkfifo data/temp-dump.ckv
  says 'Background saving started' cli BGSAVE
  until cli INFO persistence | grep -q '^rdb_bgsave_in_progress:1'; do sleep 0.05; done
}
let_go() { timeout 20 cat data/temp-dump.ckv > /dev/null; rm -f data/temp-dump.ckv; }
held_up first
cli SHUTDOWN > "$work/said" 2>&1 &
logged 'ending: '
kill -TERM "$server"  # the first signal: running work is finished
sleep 0.3
let_go
ends 0
start --save '3600 1'
says first cli GET kept
mkdir "$obstacle"
says 'ERR Errors trying to SHUTDOWN. Check logs.' cli SHUTDOWN
says OK cli SET kept second
kill -TERM "$server"  # again the first signal
for waited in $(seq 200); do [ "$(grep -c 'it does NOT end' log)" -lt 2 ] || break; sleep 0.05; done
says second cli GET kept
rmdir "$obstacle"
kill -TERM "$server"
ends 0
start --save '3600 1'
says second cli GET kept
kill -TERM "$server"
ends 0
held_up third
mkdir "$obstacle"
kill -TERM "$server"
logged 'ending: '
cli SHUTDOWN NOSAVE > "$work/said" 2>&1 &
sleep 0.3
let_go
logged ' ended$'
ends 0
rmdir "$obstacle"

echo '== a snapshot that fails stops what would change anything'
obstacle=data/temp-dump.ckv
start --save '3600 1'
says OK cli SET kept again
mkdir "$obstacle"
says 'Background saving started' cli BGSAVE
logged ' warning: the snapshot failed: '
cli SET kept more > "$work/said" 2>&1 || true
grep -q 'MISCONF the last snapshot failed: .*stop-writes-on-bgsave-error' "$work/said" || fail "SET hears: $(cat "$work/said")"
says again cli GET kept
says OK cli CONFIG SET stop-writes-on-bgsave-error no
says OK cli SET kept more
says OK cli CONFIG SET stop-writes-on-bgsave-error yes
cli SET kept most > "$work/said" 2>&1 || true
grep -q MISCONF "$work/said" || fail "SET hears: $(cat "$work/said")"
rmdir "$obstacle"
says OK cli SAVE
says OK cli SET kept most
kill -TERM "$server"
ends 0

echo '== what FLUSHALL erased does not come back after a crash'
for end in KILL TERM; do
  start --save '3600 1'
  says OK cli SET gone yes
  says OK cli SAVE
  says OK cli FLUSHALL
  [ "$end" = KILL ] || says OK cli SET left yes
  kill -"$end" "$server"
  wait "$server" 2> /dev/null || true
  start --save '3600 1'
  says '' cli GET gone
  [ "$end" = KILL ] || says yes cli GET left
  kill -TERM "$server"
  ends 0
done
rm data/dump.ckv

echo '== databases are found again, by the journal and by a snapshot'
mkdir numbered
for keeps in '--appendonly yes --save' '--save'; do
  # shellcheck disable=SC2086
  start $keeps '' --dir "$work/numbered"
  says OK cli SET k zero
  says OK cli -n 5 SET k five
  says 1 cli -n 15 HSET h f v
  says 1 cli -n 5 EXPIRE k 1000
  [ "$keeps" != --save ] || says OK cli SAVE
  kill -KILL "$server"
  wait "$server" 2> /dev/null || true
  # shellcheck disable=SC2086
  start $keeps '' --dir "$work/numbered"
  says zero cli GET k
  says five cli -n 5 GET k
  says v cli -n 15 HGET h f
  says 1 cli -n 5 DBSIZE
  says OK cli -n 5 FLUSHDB
  says 0 cli -n 5 DBSIZE
  says 1 cli DBSIZE
  says OK cli FLUSHALL
  kill -TERM "$server"
  ends 0
done

echo '== keys that no client could reach keep it from starting'
start --save '' --dir "$work/numbered"
says OK cli -n 5 SET k five
says OK cli SAVE
kill -TERM "$server"
ends 0
expect 1 'databases is 4, and what is kept in dir has 1 keys in database 5: set databases to 16' \
  cordma-kv --port 0 --unixsocket "$work/other.sock" --databases 4 --save '' --dir "$work/numbered"

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
start --maxclients 1000 --save ''
[ "$(sed -n 's/^FDSize:[[:space:]]*//p' "/proc/$server/status")" -ge 1000 ] || fail "its table of descriptors has yet to grow"
kill -TERM "$server"
ends 0
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
in_microseconds=''
for _ in 1 2 3 4; do [ $((10#$(cli TIME | tail -n 1) % 1000)) = 0 ] || in_microseconds=yes; done
[ -n "$in_microseconds" ] || fail "TIME counts milliseconds"
for line in 'cordma_kv_keys 1' 'cordma_kv_connected_clients [0-9]' 'cordma_kv_commands_processed_total [1-9]' \
    'cordma_kv_input_bytes_total{worker="0"} [1-9]' 'cordma_kv_memory_rss_bytes [1-9]'; do
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
