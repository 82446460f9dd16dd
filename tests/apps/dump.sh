# SIGUSR1: cordma-perf, -cp, -cpd and -kv report where they wait, and continue.
source "$(dirname "$0")/expect.sh"

# handles PID: waits until the process has installed its handler of SIGUSR1. Until exec() a background process is a
# shell, which catches the signal too.
handles() {
  local caught
  while [ "$(readlink "/proc/$1/exe")" = "$(readlink "/proc/$$/exe")" ]; do sleep 0.05; done
  until caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") && (((0x$caught & 0x200) != 0)); do
    kill -0 "$1" 2> /dev/null || fail "it ended before it had a handler"
    sleep 0.05
  done
}

# reports PID FILE [LINE]: the process reports a reactor, and LINE if it is given, to FILE. A
# process that has no reactor yet reports none, so the signal is repeated.
reports() {
  handles "$1"
  until grep -q "^${3-  tasks: }" "$2"; do
    kill -USR1 "$1" 2> /dev/null || { cat "$2" >&2; fail "the signal ended it"; }
    sleep 0.05
  done
  grep -Eq '^reactor 0x[0-9a-f]+: ' "$2" || fail "no reactor in $2"
  grep -Eq '^  Worker 0x[0-9a-f]+: [0-9]+ endpoints, ' "$2" || fail "no Worker in $2"
}

serve cordma-perf --listen 127.0.0.1:0 --wait event
reports "$server" "$work/served"
grep -q 'waits: ' "$work/served" || fail "no coroutine in the report of cordma-perf"
expect 0 'write-lat' cordma-perf "$address" --test write-lat --iterations 10

mkdir "$work/tree" "$work/copy"
echo here > "$work/tree/file"
serve cordma-cpd --listen 127.0.0.1:0 --module "tree=$work/tree"
daemon=$server daemon_address=$address
reports "$daemon" "$work/served"

# The daemon is stopped, so that the client waits for it.
kill -STOP "$daemon"
"$programs/cordma-cp" "cordma://$daemon_address/tree/file" "$work/copy/file" > "$work/client" 2>&1 &
client=$!
background+=("$client")
reports "$client" "$work/client" '.*waits: '
kill -CONT "$daemon"
wait "$client" || { cat "$work/client" >&2; fail "cordma-cp failed after a report"; }
cmp "$work/tree/file" "$work/copy/file"
kill -TERM "$daemon"
wait "$daemon" || fail "cordma-cpd did not end well after a report"

for attempt in $(seq 20); do
  port=$((20000 + RANDOM % 12000))
  "$programs/cordma-kv" --port 0 --unixsocket "$work/kv.sock" --native-port "$port" --dir "$work" > "$work/kv" 2>&1 &
  server=$!
  background+=("$server")
  until grep -q ' ready$' "$work/kv" || ! kill -0 "$server" 2> /dev/null; do sleep 0.05; done
  ! kill -0 "$server" 2> /dev/null || break
done
reports "$server" "$work/kv"
kill -TERM "$server"
wait "$server" || { cat "$work/kv" >&2; fail "cordma-kv did not end well after a report"; }
