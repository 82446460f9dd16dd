#!/usr/bin/env bash
# Demonstrates cordma, starting from a fresh Debian 12 machine. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/.ci/packages.sh"

usage() {
  cat <<'TEXT'
bash apps/demo.sh [options]     two processes exchange messages, use each other's memory, and copy a
                                directory tree; over shared memory, then over TCP

  --compiler CXX  build with this compiler (a name or a path); default: clang++-19, which is installed
  --build DIR     build in this folder; default: build-demo-COMPILER in the checkout
  --programs DIR  build nothing: use the programs of this folder
  --tree DIR      the tree to pull; default: /usr/include
  --quick         fewer messages: a check, not a measurement
  --keep          keep the copies and print where they are
  --help          this text

Missing packages are installed (as root or with sudo). Exits with 0 if every step worked and every file was
identical, else with 1; with 2 for a wrong option.
TEXT
}

fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
wrong() { printf 'demo: %s; --help lists the options\n' "$*" >&2; exit 2; }
title() { printf '\n=== %s\n' "$*"; }

tree=/usr/include quick='' keep='' compiler='' build='' programs=''
while [ $# -gt 0 ]; do
  case $1 in
    --compiler) [ -n "${2-}" ] || wrong "--compiler needs a name"; compiler=$2; shift ;;
    --build) [ -n "${2-}" ] || wrong "--build needs a directory"; build=$2; shift ;;
    --programs) [ -n "${2-}" ] || wrong "--programs needs a directory"; programs=$2; shift ;;
    --tree) [ -n "${2-}" ] || wrong "--tree needs a directory"; tree=$2; shift ;;
    --quick) quick=yes ;;
    --keep) keep=yes ;;
    --help | -h) usage; exit 0 ;;
    *) wrong "unknown option '$1'" ;;
  esac
  shift
done
[ -z "$programs" ] || [ -z "$build$compiler" ] || wrong "--programs builds nothing: leave out --build and --compiler"
[ -d "$tree" ] && [ -r "$tree" ] || [ "$tree" = /usr/include ] ||
  wrong "--tree: '$tree' is no directory that can be read"

packages=(cmake ninja-build libasio-dev nlohmann-json3-dev libcli11-dev liburing-dev libssl-dev libxxhash-dev libisal-dev
  libibverbs-dev librdmacm-dev)

choose_compiler() {  # sets compiler to a path
  if [ -z "$compiler" ]; then
    packages+=(clang-19)
    compiler=clang++-19
  else
    command -v "$compiler" > /dev/null || fail "--compiler: '$compiler' is not installed; without --compiler," \
      "clang++-19 is installed and used"
    [[ ${compiler##*/} =~ ^(g|clang)\+\+ ]] || packages+=(libstdc++-12-dev)
  fi
  install_packages "${packages[@]}" || exit 1
  compiler=$(command -v "$compiler") || fail "the package clang-19 has no clang++-19"
  compiler=$(realpath -s -- "$compiler")
  check_compiler
}

check_compiler() {
  local scratch said code=0
  scratch=$(mktemp -d 2> /dev/null) || fail "no folder can be made in ${TMPDIR:-/tmp}; TMPDIR names another one"
  said=$({ "$compiler" -std=c++20 "$root/.cmake/check_compiler.cpp" -o "$scratch/check" && "$scratch/check"; } 2>&1) || code=$?
  rm -rf "$scratch"
  [ $code -ne 0 ] || return 0
  [[ $said != *"No space left on device"* ]] || fail "${TMPDIR:-/tmp} is full; TMPDIR names another folder"
  fail "--compiler: '$compiler' cannot build cordma, which needs clang++ 17, g++ 12 or newer and C++20 coroutines;" \
    "without --compiler, clang++-19 is installed and used"
}

# Makes or checks the build folder. A folder of another compiler or checkout is stale. The default folder belongs to this
# script, so it is cleared; another one is refused.
prepare_folder() {
  local own='' name=${compiler##*/} cached
  [ -n "$build" ] || { build=$root/build-demo-${name//+/} own=yes; }
  { mkdir -p "$build" && [ -w "$build" ]; } 2> /dev/null ||
    fail "'$build' cannot be written; --build DIR builds in another folder"
  build=$(cd "$build" && pwd)
  if [ -e "$build/CMakeCache.txt" ]; then
    cached=$(sed -n 's/^CMAKE_HOME_DIRECTORY:[^=]*=//p; s/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt" | sort)
    [ "$cached" != "$(printf '%s\n%s\n' "$compiler" "$root" | sort)" ] || return 0
    [ -n "$own" ] || fail "--build: '$build' was configured with another compiler or for another checkout;" \
      "remove it or name another folder"
    echo "the build folder was configured with another compiler or elsewhere: it is built anew"
    rm -rf "$build"
    mkdir -p "$build"
  elif [ -z "$own" ] && [ -n "$(ls -A "$build")" ]; then
    fail "--build: '$build' is neither empty nor a build folder; name another one"
  fi
}

# Prints the first error in the log of a build: the output of the first failed step, from its first
# error on.
first_error() {  # first_error LOG
  awk '/^FAILED: /{ failed = 1; next }
    failed && !command { command = 1; next }  # the line of the command
    failed && /^\[[0-9]+\/[0-9]+\]|^ninja: /{ exit }
    failed { lines[n++] = $0; if (!first && /error|Killed|undefined/) first = n }
    END { start = first ? first - 1 : 0; for (i = start; i < n && i < start + 8; ++i) print lines[i] }' "$1"
}

progress() {  # progress LOG STARTED: prints one line with the progress of the build
  local step=0 of seconds=$((SECONDS - $2)) left
  # "[0/2] Re-checking globbed directories..." is no step of the build.
  read -r step of < <(sed -nE 's,^\[([1-9][0-9]*)/([0-9]+)\] (Build|Link|Generat).*,\1 \2,p' "$1" | tail -n 1) || true
  [ "${step:-0}" -gt 0 ] || { printf 'building: no step is done after %s s' "$seconds"; return; }
  left=$((seconds * (of - step) / step))
  # The first 5 % of the steps are no basis for an estimate: a step takes about 1.5 s of a processor.
  [ $((step * 20)) -ge "$of" ] || left=$(((of - step) * 3 / 2 / $(nproc)))
  printf 'building: step %s of %s, about %s s left' "$step" "$of" "$left"
}

build_programs() {
  local log=$build/demo.log started=$SECONDS every=10 shown=0 code=0
  echo "building with $compiler in $build"
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DCORDMA_TESTS=OFF -DCORDMA_BENCH=OFF > "$log" 2>&1 || broken "$log" "CMake failed"
  set -m  # a process group, so that all its processes can be killed together
  cmake --build "$build" --target cordma-perf cordma-demo cordma-info >> "$log" 2>&1 < /dev/null &
  builder=$!
  set +m
  [ ! -t 1 ] || every=1
  while kill -0 $builder 2> /dev/null; do
    sleep 0.2
    [ $((SECONDS - started - shown)) -ge $every ] || continue
    shown=$((SECONDS - started))
    if [ -t 1 ]; then printf '\r%s\033[K' "$(progress "$log" "$started")"; else progress "$log" "$started"; echo; fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
  wait $builder || code=$?
  builder=''
  [ $code -eq 0 ] || broken "$log" "the build failed"
}

broken() {  # broken LOG WHAT
  # CMake and ninja do not always name a full disk as the cause.
  if grep -qs 'No space left on device' "$1" || [ "$(df --output=avail -k "$build" | tail -n 1)" -lt 1024 ]; then
    fail "$2: the disk is full; the build needs about 300 MB in $build (--build DIR builds elsewhere)"
  fi
  if grep -q '^FAILED: ' "$1"; then first_error "$1" >&2; else grep -A 3 -m 1 'CMake Error\|rror:' "$1" >&2 || tail -n 5 "$1" >&2; fi
  fail "$2: above is the first error; the whole log is $1"
}

work='' server='' builder=''
# shellcheck disable=SC2317  # the trap calls it
cleanup() {
  [ -z "$builder" ] || kill -- "-$builder" 2> /dev/null || true
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
if [ -z "$programs" ]; then
  title "Building"
  choose_compiler
  prepare_folder
  build_programs
  echo "built in $((SECONDS - started)) s"
  programs=$build
fi
bin=$programs/bin
[ -d "$bin" ] || bin=$programs
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
