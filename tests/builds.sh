#!/usr/bin/env bash
# Builds as users do: every build type with both compilers, with warnings as errors. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/.ci/packages.sh"

usage() {
  cat <<'TEXT'
bash tests/builds.sh [options]     builds the library and one program, without a warning, with g++-12 and clang++-19,
                                   in Release, RelWithDebInfo, Debug and MinSizeRel

  --all            everything: all programs, benches and tests
  --compiler CXX   only with this compiler
  --type TYPE      only this build type
  --jobs N         compile N at a time; default: the number of processors
  --help           this text

The build folders lie in build-types; each is removed once its build has passed.
TEXT
}
fail() { printf 'builds.sh: %s; --help lists the options\n' "$*" >&2; exit 2; }

compilers=(g++-12 clang++-19) types=(Release RelWithDebInfo Debug MinSizeRel) everything='' jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --all) everything=yes ;;
    --compiler) [ -n "${2-}" ] || fail "--compiler needs a name"; compilers=("$2"); shift ;;
    --type)
      [[ " ${types[*]} " == *" ${2-} "* ]] || fail "--type is one of ${types[*]}, not '${2-}'"
      types=("$2"); shift ;;
    --jobs) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "--jobs needs a number of at least 1"; jobs=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) fail "unknown option '$1'" ;;
  esac
  shift
done
install_packages cmake ninja-build python3 clang-19 g++-12 liburing-dev libibverbs-dev librdmacm-dev libasio-dev \
  doctest-dev nlohmann-json3-dev libcli11-dev libssl-dev libxxhash-dev libisal-dev

for compiler in "${compilers[@]}"; do
  command -v "$compiler" > /dev/null || fail "the compiler '$compiler' is not installed"
done

export CCACHE_DISABLE=1
chosen=(-DCORDMA_TESTS=OFF -DCORDMA_BENCH=OFF) targets=(cordma_runtime cordma_net cordma_gpu example-echo)
[ -z "$everything" ] || chosen=() targets=(all)
failed=()
for compiler in "${compilers[@]}"; do
  for type in "${types[@]}"; do
    started=$SECONDS code=0
    build=$root/build-types/$compiler-$type
    mkdir -p "$build"
    { cmake -G Ninja -S "$root" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$type" \
        -DCORDMA_WERROR=ON "${chosen[@]}" && cmake --build "$build" -j "$jobs" --target "${targets[@]}"; } \
      > "$build.log" 2>&1 || code=$?
    if [ $code -eq 0 ]; then rm -rf "$build"; else grep -m 5 -A 5 'rror:' "$build.log" || tail -n 20 "$build.log"; fi
    [ $code -eq 0 ] || failed+=("$compiler $type, $build.log")
    printf '%s %s: %s in %d s\n' "$compiler" "$type" "$([ $code -eq 0 ] && echo built || echo FAILED)" $((SECONDS - started))
  done
done
[ ${#failed[@]} -eq 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
