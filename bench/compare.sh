#!/usr/bin/env bash
# Runs cordma beside its peers and the limits of the machine, interleaved, and prints one table.
#
#   bash bench/compare.sh [--repetitions N] [--only REGEX] [--quick] [--markdown FILE] ...
#
# Installs ucx_perftest (Debian: ucx-utils) and what it builds with, when they are missing; builds
# cordma into build-bench, unless --build names a folder. All options: --help.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
build=$root/build-bench

say() { printf 'compare: %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

has_package() {
    dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

# What cannot be had costs its rows, not the run.
install_missing() {
    local package missing=()
    for package in "$@"; do
        has_package "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    say "installing ${missing[*]}"
    as_root apt-get update -q >&2 || true
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}" >&2 ||
        say "could not install ${missing[*]}; going on without"
}

compiler() {
    local name
    for name in clang++-19 clang++ g++; do
        command -v "$name" && return 0
    done
    return 1
}

build_programs() {
    install_missing cmake make clang-19 liburing-dev libasio-dev nlohmann-json3-dev libcli11-dev
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

command -v python3 >/dev/null || install_missing python3
if ! wanted --help "$@" && ! wanted -h "$@" && ! wanted --list "$@"; then
    # A mistake in the options shows now, not after the build.
    python3 "$here/compare.py" "$@" --list >/dev/null
    command -v ucx_perftest >/dev/null || install_missing ucx-utils
    if ! wanted --build "$@"; then
        build_programs || say "cordma did not build; its columns stay empty"
    fi
fi
exec python3 "$here/compare.py" --build "$build" "$@"
