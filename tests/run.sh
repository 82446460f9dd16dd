#!/usr/bin/env bash
# Builds cordma and runs its tests, starting from a fresh Debian 12 machine. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/.ci/packages.sh"

usage() {
  cat <<'TEXT'
bash tests/run.sh [options]     builds everything and runs all tests; ends with ctest's summary

  --asan            with AddressSanitizer and UndefinedBehaviorSanitizer, without the programs of apps/
  --tsan            with ThreadSanitizer: the tests that start threads, without the programs and the simulator
  --gcc             with g++-12 in place of clang++-19; without the benches and the tests of the parts of cordma-cp
                    and cordma-kv, and the conformance suite above messaging on one transport
  --fuzz SECONDS    no tests: fuzzes each target for so long, as many at a time as there are jobs
  --no-soft-roce    without real RDMA: no virtual machines (soft-roce.*)
  --tier A[,B]      only the tests of these tiers (tests/README.md lists them): host, core, rdma-verbs,
                    rdma-programs, rdma-machines
  --part P          with --gcc: only the `layers` (and what tests them) or the `programs` (and their scripts)
  --filter REGEX    only the tests, or with --fuzz the targets, whose name matches
  --build-only      no tests
  --jobs N          compile and test N at a time; default: the number of processors
  --help            this text

Each variant has its build folder: build-clang, build-gcc, build-asan, build-tsan; --fuzz uses that of --asan.
Clang runs the full repetition counts, the other variants a tenth of them, unless CORDMA_TEST_ROUNDS is set: all or few.
Missing Debian packages are installed (as root or with sudo).
Real RDMA is tested with Clang and g++ and, in part, with --asan.
A failed test is not repeated. A virtual machine that did not boot or broke down is started once more, and is listed at
the end. Without qemu or the kernel for it these tests are skipped, each by name, with the reason above them.
TEXT
}

fail() { printf 'tests/run.sh: %s\n' "$*" >&2; exit 2; }

variant=clang jobs=$(nproc) filter='' tier='' part='' fuzz_seconds='' soft_roce=ON build_only=''
choose() {
  [ "$variant" = clang ] || fail "--$variant and --$1 cannot be combined; run them one after the other"
  variant=$1
}
number() {  # number OPTION VALUE
  [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number of at least 1, not '${2-}'"
}
while [ $# -gt 0 ]; do
  case $1 in
    --asan | --tsan | --gcc) choose "${1#--}" ;;
    --fuzz) number "$1" "${2-}"; choose fuzz; fuzz_seconds=$2; shift ;;
    --no-soft-roce) soft_roce=OFF ;;
    --jobs) number "$1" "${2-}"; jobs=$2; shift ;;
    --tier)
      tiers='host|core|rdma-verbs|rdma-programs|rdma-machines'
      [[ ${2-} =~ ^($tiers)(,($tiers))*$ ]] || fail "--tier needs tiers, not '${2-}'; they are ${tiers//|/, }"
      tier="^(${2//,/|})\$"; shift ;;
    --part)
      [[ ${2-} =~ ^(layers|programs)$ ]] || fail "--part is layers or programs, not '${2-}'"
      part=$2; shift ;;
    --filter) [ -n "${2-}" ] || fail "--filter needs a regular expression"; filter=$2; shift ;;
    --build-only) build_only=yes ;;
    --help | -h) usage; exit 0 ;;
    *) fail "unknown option '$1'; --help lists them" ;;
  esac
  shift
done
[ -z "$part" ] || [ "$variant" = gcc ] || fail "--part needs --gcc"
[ -z "$part" ] || soft_roce=OFF
case $variant in tsan | fuzz) soft_roce=OFF ;; esac
[ $variant = clang ] || export CORDMA_TEST_ROUNDS=${CORDMA_TEST_ROUNDS-few}

packages=(cmake ninja-build ccache git python3 liburing-dev libibverbs-dev librdmacm-dev libasio-dev doctest-dev
  nlohmann-json3-dev libcli11-dev libssl-dev libxxhash-dev libisal-dev openssl rsync attr acl strace clang-format-19 redis-server redis-tools)
case $variant in
  gcc) packages+=(g++-12) ;;
  clang) packages+=(clang-19) ;;
  *) packages+=(clang-19 libclang-rt-19-dev llvm-19) ;;
esac

configure() {  # configure ARGUMENT...
  local compiler=clang++-19 level=-O2
  [ "$variant" != gcc ] || compiler=g++-12
  # Sanitized code is slow anyway, and compiles in a fifth less time at this level.
  case $variant in asan | fuzz | tsan) level=-O1 ;; esac
  # Line numbers in stack traces, and no more debug information, which takes a sixth of the build
  # time. GCC's is unused.
  local debug=-g1
  [ "$variant" != gcc ] || debug=-g0
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_CXX_COMPILER=$compiler \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="$level $debug -DNDEBUG" -DCORDMA_QUICK=ON -DCORDMA_WERROR=ON "$@" \
    > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; fail "CMake failed: see above"; }
}

fuzz_one() {  # fuzz_one TARGET: writes NAME.log, and NAME.broken if it found an error
  local name=${1##*/fuzz_}
  mkdir -p "$build/corpus/$name"
  rm -f "$build/$name.broken"
  # New inputs go to the build folder; the committed corpus is only read.
  "$1" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$build/$name-" "$build/corpus/$name" \
    "$root/tests/fuzz/corpus/$name" > "$build/$name.log" 2>&1 || touch "$build/$name.broken"
}

run_fuzzers() {
  local targets=() target name broken=()
  for target in "$build"/bin/fuzz_*; do
    if [[ ${target##*/fuzz_} =~ $filter ]]; then targets+=("$target"); fi
  done
  [ ${#targets[@]} -gt 0 ] || fail "no fuzz target of tests/fuzz/ matches '$filter'"
  for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    fuzz_one "$target" &
  done
  wait
  for target in "${targets[@]}"; do
    name=${target##*/fuzz_}
    echo "=== $name for $fuzz_seconds s"
    cat "$build/$name.log"
    [ ! -e "$build/$name.broken" ] || broken+=("$name")
  done
  [ ${#broken[@]} -eq 0 ] ||
    fail "broken: ${broken[*]}; replay with $build/bin/fuzz_NAME $build/NAME-<crash file>"
  echo "fuzzed ${#targets[@]} targets for $fuzz_seconds s each, no finding"
}

install_packages "${packages[@]}" || exit
[ $soft_roce = OFF ] || bash "$root/tests/soft-roce/run.sh" --prepare || [ $? -eq 77 ]
build=$root/build-${variant/fuzz/asan}
export PATH=$PATH:/usr/lib/llvm-19/bin  # llvm-symbolizer: sanitizers' reports name lines with it
mkdir -p "$build"
exec {lock}> "$build/lock"
flock "$lock"  # one run at a time in a build folder: the second waits
started=$SECONDS
case $variant in
  clang) configure -DCORDMA_SOFT_ROCE=$soft_roce ;;
  # Compiles every file of the layers separately, as users may build them: this detects missing
  # includes.
  gcc) configure -DCORDMA_SOFT_ROCE=$soft_roce -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCORDMA_BENCH=OFF \
    -DCORDMA_APPS="$([ "$part" = layers ] && echo OFF || echo ON)" ;;
  asan | fuzz) configure -DCORDMA_SANITIZE=address -DCORDMA_FUZZ=ON -DCORDMA_BENCH=OFF -DCORDMA_APPS=OFF \
    -DCORDMA_SOFT_ROCE=$soft_roce ;;
  tsan) configure -DCORDMA_SANITIZE=thread -DCORDMA_BENCH=OFF -DCORDMA_APPS=OFF ;;
esac
target=all
[ "$variant" != fuzz ] || target=fuzzers
[ "$part" != programs ] || target=programs
cmake --build "$build" -j "$jobs" --target "$target"
echo "built in $((SECONDS - started)) s"
[ -z "$build_only" ] || exit 0
[ "$variant" != fuzz ] || { run_fuzzers; exit; }

# Under ASan every awaited task takes stack even if the transfer is symmetric.
[ "$variant" != asan ] || ulimit -s unlimited || fail "ASan needs: ulimit -s unlimited"
choice=()
[ -z "$filter" ] || choice+=(-R "$filter")
[ -z "$tier" ] || choice+=(-L "$tier")
[ "$part" != programs ] || choice+=(-L '^apps$')
again=$build/soft-roce/started-again code=0
rm -f "$again"
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "${choice[@]}" || code=$?
[ ! -e "$again" ] || { echo "started once more, as the machine did not boot or broke down:"; sort "$again" | uniq -c; }
exit $code
