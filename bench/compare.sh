#!/usr/bin/env bash
# Runs cordma beside its peers and the limits of the machine, interleaved, and prints one table.
#
#   bash bench/compare.sh [--repetitions N] [--only REGEX] [--quick] [--markdown FILE] ...
#
#   bash bench/compare.sh --beside BUILD ...  beside an earlier build of cordma in the folder BUILD, without peers
#   bash bench/compare.sh --ucx PREFIX ...    beside the UCX that is installed there (or: UCX_PREFIX=PREFIX)
#   bash bench/compare.sh --soft-roce ...     the rows over RDMA, in the virtual machine of tests/soft-roce
#
# Installs the peers that are missing: Debian's ucx-utils (unless --ucx names another UCX), sockperf, qperf and
# libfabric-bin. --beside needs none. Without --build FOLDER it also installs the packages of a build, and builds cordma
# into build-bench. All options: --help.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$root/.ci/packages.sh"
build=$root/build-bench

say() { printf 'compare: %s\n' "$*" >&2; }

compiler() {
    local name
    for name in clang++-19 clang++ g++; do
        command -v "$name" && return 0
    done
    return 1
}

build_programs() {
    install_packages cmake make clang-19 libasio-dev nlohmann-json3-dev libcli11-dev \
        liburing-dev libssl-dev libxxhash-dev libisal-dev || true
    say "building cordma into ${build#"$root"/}"
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCORDMA_TESTS=OFF \
        -DCMAKE_CXX_COMPILER="$(compiler)" >&2 &&
        cmake --build "$build" --parallel "$(nproc)" >&2
}

wanted() { # wanted OPTION ARGUMENTS...: is OPTION among the arguments?
    local option=$1 argument
    shift
    for argument in "$@"; do
        case $argument in "$option" | "$option"=*) return 0 ;; esac
    done
    return 1
}

# Of the machine's files only those under out/ are copied back.
refuse_lost_files() { # refuse_lost_files ARGUMENTS...
    local before='' argument file
    for argument in "$@"; do
        file=''
        case $argument in --json=* | --markdown=* | --plot=*) file=${argument#*=} ;; esac
        case $before in --json | --markdown | --plot) file=$argument ;; esac
        before=$argument
        case $(realpath -m -- "${file:-$root/out/x}") in
            "$root"/out/*) ;;
            *) say "$file would be lost with the machine: name a file under $root/out" && exit 2 ;;
        esac
    done
}

# Inside the machine everything is the same, except that there is an RDMA device.
soft_roce=''
for argument in "$@"; do
    shift
    if [ "$argument" = --soft-roce ]; then soft_roce=yes; else set -- "$@" "$argument"; fi
done
if [ -n "$soft_roce" ]; then
    refuse_lost_files "$@"
    set -- --rdma "$@"
fi

command -v python3 >/dev/null || install_packages python3 || true
if ! wanted --help "$@" && ! wanted -h "$@" && ! wanted --list "$@"; then
    # Reports a mistake in the options before the build.
    python3 "$here/compare.py" "$@" --list >/dev/null
    # Installed separately: if one is unavailable, only its rows are missing.
    if ! wanted --beside "$@"; then
        peers=(sockperf qperf libfabric-bin)
        if [ -z "${UCX_PREFIX:-}" ] && ! wanted --ucx "$@"; then peers+=(ucx-utils); fi
        for package in "${peers[@]}"; do
            install_packages "$package" || true
        done
    fi
    if ! wanted --build "$@"; then
        build_programs || say "cordma did not build; its columns stay empty"
    fi
fi
if [ -n "$soft_roce" ]; then
    install_packages perftest || true
    mkdir -p "$root/out"
    exec bash "$root/tests/soft-roce/run.sh" --timeout 1500 --share "$root/out" -- \
        python3 "$here/compare.py" --build "$build" "$@"
fi
exec python3 "$here/compare.py" --build "$build" "$@"
