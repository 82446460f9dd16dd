#!/usr/bin/env bash
# Sends the same commands to cordma-kv and to redis-server: kv_beside_redis.sh PROGRAMS.
# CORDMA_TEST_SEEDS=17 or 1+20 selects seeds other than 1 to 3.
. "$(dirname "$0")/expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
for needed in redis-cli redis-server python3; do
  command -v "$needed" > /dev/null || { echo "without $needed nothing is tried"; exit 77; }
done
cd "$work"
case $(redis-server --version) in
  *v=7.0.*) ;;
  *) echo "redis-server is not 7.0, whose words these are"; exit 77 ;;
esac
mkdir theirs ours
redis-server --port 0 --unixsocket "$work/theirs/s" --save '' --appendonly no --dir "$work/theirs" > redis.log 2>&1 &
background+=($!)

# answers SOCKET: waits for a response for at most 30 seconds
answers() {
  local waited
  for ((waited = 0; waited < 600; ++waited)); do
    ! redis-cli -s "$1" PING > /dev/null 2>&1 || return 0
    sleep 0.05
  done
  cat log >&2
  fail "nobody answers at $1"
}
answers "$work/theirs/s"
seeds=${CORDMA_TEST_SEEDS:-1+2}
first=${seeds%+*}
last=$first
[ "$seeds" = "$first" ] || last=$((first + ${seeds#*+}))

for workers in 1 2; do
  echo "== $workers workers"
  "$programs/cordma-kv" --port 0 --unixsocket "$work/ours/s" --save '' --dir "$work/ours" --workers "$workers" > log 2>&1 &
  ours=$!
  background+=("$ours")
  answers "$work/ours/s"
  for ((seed = first; seed <= last; ++seed)); do
    python3 -B "$here/kv_beside_redis.py" "$work/ours/s" "$work/theirs/s" --seed "$seed" --rounds 600 ||
      fail "CORDMA_TEST_SEEDS=$seed brings it about again"
  done
  kill "$ours"
  wait "$ours" || fail "it did not end with 0"
done
