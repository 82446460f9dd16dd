#!/usr/bin/env bash
# Runs the commands of README.md on a bare Debian 12, in a chroot. See --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/.ci/packages.sh"

usage() {
  cat <<'TEXT'
bash tests/newcomer/run.sh [options]     makes a bare Debian 12 and runs there the commands of README.md

  (no option)         the first command in four combinations: by root or by a user with sudo, and with nothing
                      or g++ installed before; then the commands that install, and the programs of the README
                      built with the installed package
  --quick             the first command with --quick, in one combination: they take turns by the day of the year
  --full              the default, and then the second command, by root
  --combination NAME  the first command in this one: root-bare, root-g++, user-bare or user-g++; with --full, the second
                      command after it
  --log DIR           keep what each command printed in DIR; default: a new folder, printed at the end
  --help              this text

The chroot gets the committed state of this checkout, and the apt sources, certificates and proxy variables of this
machine. Needs root. Without the right to make a chroot: exit code 77, or 1 where CI=true. Else 0 or 1; 2 for a
wrong option.
TEXT
}
fail() { printf 'newcomer: %s\n' "$*" >&2; exit 1; }
wrong() { printf 'newcomer: %s; --help lists the options\n' "$*" >&2; exit 2; }
skip() {
  [ "${CI-}" != true ] || fail "$*"
  printf 'newcomer: skipped: %s\n' "$*" >&2
  exit 77
}

all=(root-bare root-g++ user-bare user-g++)
mode='' one='' chosen=("${all[@]}") logs=''
choose_mode() { [ -z "$mode" ] || wrong "$1 and another choice cannot be combined"; mode=$1; }
while [ $# -gt 0 ]; do
  case $1 in
    --quick) choose_mode "$1"; chosen=("${all[10#$(date +%j) % 4]}") ;;
    --full) choose_mode "$1" ;;
    --combination)
      [[ " ${all[*]} " == *" ${2-} "* ]] || wrong "--combination is one of ${all[*]}, not '${2-}'"
      one=$2 chosen=("$2"); shift ;;
    --log) [ -n "${2-}" ] || wrong "--log needs a directory"; logs=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) wrong "unknown option '$1'" ;;
  esac
  shift
done

[ -z "$one" ] || [ "$mode" != --quick ] || wrong "--quick and --combination cannot be combined"

[ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
unshare --mount --pid --fork true 2> /dev/null || skip "this machine permits no mounts (unshare --mount failed)"
install_packages mmdebstrap git || skip "mmdebstrap and git cannot be installed"

[ -n "$logs" ] || logs=$(mktemp -d "${TMPDIR:-/tmp}/newcomer-log-XXXXXX")
mkdir -p "$logs"
work=$(mktemp -d "${TMPDIR:-/tmp}/newcomer-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
table=()

# timed NAME COMMAND...: runs it with its output in a log, adds a line to the table, and prints the
# end of the log on failure.
timed() {
  local name=$1 log=$logs/${1//[ \/]/-}.log code=0 started=$SECONDS
  shift
  echo "newcomer: $name"
  "$@" > "$log" 2>&1 || code=$?
  table+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
  [ "$code" -eq 0 ] || { tail -n 40 "$log"; fail "$name ended with $code; the whole log is $log"; }
}

debian_sources() {
  if [ -r /etc/apt/sources.list.d/debian.sources ]; then
    cat /etc/apt/sources.list.d/debian.sources
  else
    grep -E '^deb .*debian' /etc/apt/sources.list || echo "deb http://deb.debian.org/debian bookworm main"
  fi
}

make_base() {
  local sources=$work/debian.sources
  debian_sources > "$sources"
  head -n 1 "$sources" | grep -q '^deb ' && mv "$sources" "${sources%sources}list" && sources=${sources%sources}list
  mmdebstrap --variant=minbase --include=ca-certificates,sudo bookworm "$work/base.tar" "$sources"
}

# Prints the commands of a section of the README, one per line: lines with four blanks in front, without comments.
commands() {  # commands HEADING
  awk -v heading="## $1" '$0 == heading { inside = 1; next } /^## / { inside = 0 }
    inside && /^    [a-z]/ { sub(/^ +/, ""); sub(/ +# .*/, ""); print }' "$root/README.md"
}

# make_machine NAME: a fresh machine in $machine with a clone of the project in $checkout. The path
# contains a blank.
make_machine() {
  machine=$work/$1 checkout="/srv/newcomer/my projects/cordma"
  mkdir -p "$machine" "$work/archives/partial"
  tar -C "$machine" -xf "$work/base.tar"
  cp /etc/resolv.conf "$machine/etc/resolv.conf"
  cp /etc/hosts "$machine/etc/hosts"
  cp -r /usr/local/share/ca-certificates/. "$machine/usr/local/share/ca-certificates/" 2> /dev/null || true
  cp /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/ca-certificates.crt"
  apt-config dump | grep -iE '^Acquire::(https?|ftp)::proxy|^Acquire::Check' > "$machine/etc/apt/apt.conf.d/90newcomer" || true
  chroot "$machine" useradd --create-home --home-dir /srv/newcomer --shell /bin/bash newcomer
  echo 'newcomer ALL=(ALL) NOPASSWD: ALL' > "$machine/etc/sudoers.d/newcomer"
  echo 'Defaults env_keep += "http_proxy https_proxy no_proxy"' >> "$machine/etc/sudoers.d/newcomer"
  git -c safe.directory='*' clone -q --no-local "$root" "$machine$checkout"
  chroot "$machine" chown -R newcomer: /srv/newcomer
}

# inside USER COMMAND: runs a shell command in the machine's checkout.
inside() {
  local user=$1 command=$2 name environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name+set}" ] || environment+=("$name=${!name}")
  done
  [ "$user" = root ] && environment+=(HOME=/root USER=root) || environment+=("HOME=/srv/$user" "USER=$user")
  # The mounts and processes of the machine end with the command.
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    machine=$1 archives=$2 user=$3; shift 3
    mount -t proc proc "$machine/proc"
    mount --rbind /sys "$machine/sys"
    mount --rbind /dev "$machine/dev"
    mkdir -p "$machine/var/cache/apt/archives"
    mount --bind "$archives" "$machine/var/cache/apt/archives"
    exec chroot --userspec="$user" "$machine" /usr/bin/env -i "$@" < /dev/null
  ' bash "$machine" "$work/archives" "$user" "${environment[@]}" bash -c "cd \"$checkout\" && $command"
}

run_demo() {  # run_demo USER COMMAND
  inside "$1" "$2" | tee "$work/demo"
  [ "${PIPESTATUS[0]}" -eq 0 ] || return 1
  grep -q '^=== Everything worked' "$work/demo" || { echo "it did not print: Everything worked"; return 1; }
  grep -q '^building: step ' "$work/demo" || { echo "it printed no progress of the build"; return 1; }
}

# The programs of the README, built as a user's project, and run over two transports.
readme_programs() {
  local own=$machine/srv/newcomer/own file
  mkdir -p "$own"
  python3 "$root/tests/install/readme_programs.py" "$root/README.md" "$own" > /dev/null
  awk '/^```cmake$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" > "$own/one.txt"
  grep -q 'find_package(cordma' "$own/one.txt" || { echo "README.md shows no CMakeLists.txt of a user"; return 1; }
  for file in "$own"/readme_*.cpp; do
    file=${file##*/}
    mkdir "$own/${file%.cpp}"
    mv "$own/$file" "$own/${file%.cpp}/main.cpp"
    cp "$own/one.txt" "$own/${file%.cpp}/CMakeLists.txt"
    inside root "cd '/srv/newcomer/own/${file%.cpp}' && cmake -G Ninja -B build -DCMAKE_CXX_COMPILER=clang++-19 &&
      cmake --build build && for t in shm tcp; do CORDMA_TRANSPORT=\$t build/yours || exit; done" || return
  done
}

# refused REGEX USER COMMAND: the command fails, and one line that it prints matches; the line before may be "installing".
refused() {
  local code=0
  inside "$2" "$3" > "$work/refused" 2>&1 || code=$?
  cat "$work/refused"
  [ "$code" -ne 0 ] || { echo "it succeeded"; return 1; }
  [ "$(grep -vcE '^$|^=== |^installing: |^building' "$work/refused")" -le "${4-1}" ] || { echo "it printed more than one sentence"; return 1; }
  grep -qE "$1" "$work/refused" || { echo "it printed no line like: $1"; return 1; }
}
refused_before() {
  refused 'sudo cannot install them; as root: apt-get install' nobody "${two[0]}" &&
    refused 'apt-get could not install .*(resolv|connect)' root "unshare --net ${two[0]}"
}
# CMake fails on the smaller disks, a compiler on the largest.
refused_after() {
  local size
  for size in 4k 64k 400k 8m; do
    refused 'the disk is full' root "mkdir -p /small && mount -t tmpfs -o size=$size none /small && ${two[0]} --build /small" || return
  done
  refused '/small is full; TMPDIR names' root \
    "mount -t tmpfs -o size=64k none /small && { head -c 65536 /dev/zero > /small/full; TMPDIR=/small ${two[0]}; }"
}

mapfile -t two < <(commands "Two commands")
[ ${#two[@]} -eq 2 ] || fail "README.md, Two commands: ${#two[@]} commands are there, not 2"
mapfile -t installing < <(commands "Install")
[ ${#installing[@]} -gt 0 ] || fail "README.md, Install: no commands are there"
[ -z "$(git -C "$root" status --porcelain 2> /dev/null)" ] || echo "newcomer: uncommitted changes are not tested"

timed "a bare Debian 12" make_base
for combination in "${chosen[@]}"; do
  user=${combination%-*}
  [ "$user" = root ] || user=newcomer
  make_machine "$combination"
  [ "${combination#*-}" = bare ] ||
    timed "$combination: g++ is installed" inside root "apt-get update -q && apt-get install -q -y --no-install-recommends g++"
  command=${two[0]}
  [ "$mode" != --quick ] || command+=" --quick"
  if [ "$combination" = root-bare ] && [ "$mode" != --quick ]; then
    timed "$combination: refused without sudo and without a network" refused_before
  fi
  timed "$combination: $command" run_demo "$user" "$command"
  if [ "$combination" = root-bare ] && [ "$mode" != --quick ]; then
    timed "$combination: refused with a full disk" refused_after
    if [ -z "$one" ] || [ "$mode" = --full ]; then
      for command in "${installing[@]}"; do timed "$combination: $command" inside root "$command"; done
      timed "$combination: the programs of the README" readme_programs
    fi
  fi
  rm -rf --one-file-system "$machine"
done
if [ "$mode" = --full ]; then
  make_machine second
  timed "second: ${two[1]}" inside root "${two[1]}"
fi
printf '%s\n' "${table[@]}"
echo "newcomer: all passed in $SECONDS s; logs: $logs"
