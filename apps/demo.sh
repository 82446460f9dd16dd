#!/usr/bin/env bash
# Shows what cordma does, from a fresh Debian 12 machine on. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/.ci/packages.sh"

usage() {
  cat <<'TEXT'
bash apps/demo.sh [options]     two processes exchange messages, use each other's memory, and copy a
                                directory tree; over shared memory, then over TCP

  --tree DIR     the tree to pull; default: /usr/include
  --quick        fewer messages: does it work? The figures are not worth much then
  --keep         leave the copies where they are, and say where
  --build DIR    take the programs from this build folder; default: build them into build-demo
  --help         this text

Installs what it builds with, where that is missing (as root or by sudo). Ends with 0 if everything
worked and every file was identical, else with 1.
TEXT
}

fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
wrong() { printf 'demo: %s; --help lists the options\n' "$*" >&2; exit 2; }
title() { printf '\n=== %s\n' "$*"; }

tree=/usr/include quick='' keep='' build=$root/build-demo own_build=yes
while [ $# -gt 0 ]; do
  case $1 in
    --tree) [ -n "${2-}" ] || wrong "--tree needs a directory"; tree=$2; shift ;;
    --build) [ -n "${2-}" ] || wrong "--build needs a directory"; build=$2 own_build=''; shift ;;
    --quick) quick=yes ;;
    --keep) keep=yes ;;
    --help | -h) usage; exit 0 ;;
    *) wrong "unknown option '$1'" ;;
  esac
  shift
done
[ -d "$tree" ] && [ -r "$tree" ] || wrong "--tree: '$tree' is no directory that can be read"

packages=(cmake ninja-build libasio-dev nlohmann-json3-dev libcli11-dev liburing-dev libssl-dev libxxhash-dev libisal-dev)
command -v clang++-19 g++ > /dev/null || packages+=(g++)

build_programs() {
  local compiler=clang++-19 log=$build.log
  command -v $compiler > /dev/null || compiler=g++
  echo "building with $compiler"
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=$compiler \
    -DCORDMA_TESTS=OFF -DCORDMA_BENCH=OFF > "$log" 2>&1 || { cat "$log"; fail "CMake: see above"; }
  if [ -t 1 ]; then
    cmake --build "$build" --target cordma-perf cordma-demo cordma-info || fail "it did not build"
  else
    cmake --build "$build" --target cordma-perf cordma-demo cordma-info >> "$log" 2>&1 ||
      { tail -40 "$log"; fail "it did not build"; }
  fi
}

work='' server=''
cleanup() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  if [ -n "$work" ] && [ -z "$keep" ]; then
    chmod -R u+rwX "$work" && rm -rf "$work"  # the tree may have folders that are read-only
  fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Two CPUs, one for each side, where there are two.
pin() { [ "$(nproc)" -lt 2 ] || echo --cpu 0,1; }

ping_pong() {
  local rounds=(--duration 1) pauses=(--iterations 2000) pinned
  [ -z "$quick" ] || rounds=(--iterations 500) pauses=(--iterations 50)
  read -ra pinned <<< "$(pin)"
  title "Ping-pong of 8-byte messages, back to back: what each way of waiting costs"
  "$bin/cordma-perf" --local --transport shm,tcp --wait polling,event,adaptive --test send-lat \
    "${rounds[@]}" "${pinned[@]}" || fail "the ping-pong failed"
  title "The same with a pause of 200 us between messages: CPU tells the three apart"
  "$bin/cordma-perf" --local --transport shm,tcp --wait polling,event,adaptive --test send-lat \
    --think-us 200 "${pauses[@]}" "${pinned[@]}" || fail "the ping-pong failed"
  echo "Times are one way, in microseconds; CPU is in percent of one core."
}

remote_memory() {
  local rounds=(--duration 0.5) pinned
  [ -z "$quick" ] || rounds=(--iterations 500)
  read -ra pinned <<< "$(pin)"
  title "Remote memory: writes, reads and fetch-and-adds, every byte checked"
  "$bin/cordma-perf" --local --transport shm,tcp --test write-imm-lat,read-lat,fetch-add-lat --check \
    "${rounds[@]}" "${pinned[@]}" || fail "remote memory failed"
  "$bin/cordma-perf" --local --transport shm,tcp --test write-bw,read-bw "${rounds[@]}" \
    "${pinned[@]}" || fail "remote memory failed"
}

start_server() {
  : > "$work/server"
  "$bin/cordma-demo" serve --tree "$tree" >> "$work/server" &
  server=$!
  local waited=0
  until address=$(sed -n 's/^listening on //p' "$work/server") && [ -n "$address" ]; do
    kill -0 "$server" 2> /dev/null || fail "the server ended before it listened"
    [ $((waited += 1)) -le 300 ] || fail "the server did not listen within 30 s"
    sleep 0.1
  done
}

pull() {  # pull TRANSPORT
  title "Pulling $tree by one-sided reads over $1"
  "$bin/cordma-demo" pull "$address" --transport "$1" --into "$work/$1" --compare "$tree" ||
    fail "the tree did not come over $1 as it should"
}

started=$SECONDS
title "Building"
if [ -n "$own_build" ]; then
  install_packages "${packages[@]}" || exit
  build_programs
  echo "built in $((SECONDS - started)) s"
fi
bin=$build/bin
[ -x "$bin/cordma-perf" ] && [ -x "$bin/cordma-demo" ] && [ -x "$bin/cordma-info" ] ||
  fail "no programs in $bin"

title "This machine"
"$bin/cordma-info" --brief
ping_pong
remote_memory
work=$(mktemp -d)
start_server
pull shm
pull tcp
[ -z "$keep" ] || echo "The copies are in $work/shm and $work/tcp"
title "Everything worked, in $((SECONDS - started)) s"
