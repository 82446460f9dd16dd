#!/usr/bin/env bash
# Builds cordma and runs its tests, from a fresh Debian 12 machine on. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
bash tests/run.sh [options]     builds everything and runs all tests; ends with ctest's summary

  --asan            under AddressSanitizer and UndefinedBehaviorSanitizer
  --tsan            under ThreadSanitizer
  --gcc             with g++-12 in place of clang++-19
  --fuzz SECONDS    no tests: fuzzes, the time shared among all targets
  --filter REGEX    only the tests whose name matches (ctest -R)
  --jobs N          compile and test N at a time; default: the number of processors
  --help            this text

Each variant has its build folder: build-clang, build-gcc, build-asan, build-tsan, build-fuzz.
Missing Debian packages are installed (as root or by sudo); where nothing is missing, nothing is.
TEXT
}

fail() { printf 'tests/run.sh: %s\n' "$*" >&2; exit 2; }

variant=clang jobs=$(nproc) filter='' fuzz_seconds=''
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
    --jobs) number "$1" "${2-}"; jobs=$2; shift ;;
    --filter) [ -n "${2-}" ] || fail "--filter needs a regular expression"; filter=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) fail "unknown option '$1'; --help lists them" ;;
  esac
  shift
done
[ "$variant" != fuzz ] || [ -z "$filter" ] || fail "--filter chooses tests; --fuzz runs none"

packages=(cmake ninja-build ccache python3 liburing-dev libasio-dev doctest-dev nlohmann-json3-dev
  libcli11-dev clang-format-19 libibverbs-dev librdmacm-dev)
case $variant in
  gcc) packages+=(g++-12) ;;
  clang) packages+=(clang-19) ;;
  *) packages+=(clang-19 libclang-rt-19-dev llvm-19) ;;
esac

install_missing() {
  local missing=() package as_root=()
  command -v dpkg-query > /dev/null || { echo "not a Debian system; needed: ${packages[*]}"; return; }
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || fail "missing packages: ${missing[*]}; install them, or run as root"
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

configure() {  # configure ARGUMENT...
  local compiler=clang++-19
  [ "$variant" != gcc ] || compiler=g++-12
  mkdir -p "$build"
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_CXX_COMPILER=$compiler "$@" \
    > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; fail "CMake found the above wrong"; }
}

run_fuzzers() {
  local targets=("$build"/bin/fuzz_*) target name share broken=()
  [ -e "${targets[0]}" ] || fail "no fuzz targets: tests/fuzz/*_fuzz.cpp is empty"
  share=$((fuzz_seconds / ${#targets[@]}))
  [ "$share" -ge 1 ] || share=1
  for target in "${targets[@]}"; do
    name=${target##*/fuzz_}
    echo "=== $name for $share s"
    mkdir -p "$build/corpus/$name"
    # New inputs go to the build folder; the committed corpus is only read.
    "$target" -max_total_time="$share" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -verbosity=0 -artifact_prefix="$build/$name-" "$build/corpus/$name" \
      "$root/tests/fuzz/corpus/$name" || broken+=("$name")
  done
  [ ${#broken[@]} -eq 0 ] ||
    fail "broken: ${broken[*]}; replay with $build/bin/fuzz_NAME $build/NAME-<crash file>"
  echo "fuzzed ${#targets[@]} targets for $share s each, no finding"
}

install_missing
build=$root/build-$variant
export PATH=$PATH:/usr/lib/llvm-19/bin  # llvm-symbolizer: sanitizers' reports name lines with it
started=$SECONDS
case $variant in
  clang | gcc) configure ;;
  asan) configure -DCORDMA_SANITIZE=address -DCORDMA_BENCH=OFF ;;
  tsan) configure -DCORDMA_SANITIZE=thread -DCORDMA_BENCH=OFF ;;
  fuzz) configure -DCORDMA_FUZZ=ON -DCORDMA_BENCH=OFF -DCORDMA_APPS=OFF ;;
esac
if [ "$variant" = fuzz ]; then
  cmake --build "$build" -j "$jobs" --target fuzzers
  run_fuzzers
  exit
fi
cmake --build "$build" -j "$jobs"
echo "built in $((SECONDS - started)) s"

# Under ASan every awaited task costs stack even where the transfer is symmetric.
[ "$variant" != asan ] || ulimit -s unlimited || fail "ASan needs: ulimit -s unlimited"
choice=()
[ -z "$filter" ] || choice=(-R "$filter")
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "${choice[@]}"
