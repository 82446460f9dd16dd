#!/usr/bin/env bash
# Runs a command with an RDMA device: in a virtual machine with Soft-RoCE. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
bash tests/soft-roce/run.sh [options] -- COMMAND...
bash tests/soft-roce/run.sh --hosts 2 [options] -- COMMAND_A... -- COMMAND_B...
bash tests/soft-roce/run.sh --prepare       only installs and builds what a run needs

Boots the stock Debian kernel in qemu, with this machine's files as its own and the RDMA device rxe0 over
the network interface wire0 (IPv4, IPv6, MTU 4200), and runs COMMAND there, in the current folder. What it
prints comes out here as it goes; its exit code becomes this one. What it writes is gone afterwards, save
under --share. To run many commands in one boot, give a script as COMMAND, or cases.sh (see README.md).

  --timeout S    COMMAND may take S seconds; default: 300
  --env NAME     pass this environment variable on, beside all CORDMA_* and SOFT_ROCE_*, PATH, HOME and
                 LANG; repeatable
  --share DIR    DIR can be written from the inside too, under the same path; default: a temporary one
  --log FILE     keep the kernel's log in FILE (FILE.b for the second machine). On failure it is shown
  --cpus N       processors of a machine; default: 4 for one, 2 for each of two. Where both sides of a
                 connection poll, two leave none for the kernel's side, and a message takes 10 ms
  --memory MIB   memory of a machine, also for what COMMAND writes; default: 2048
  --hosts 2      two machines on one wire, each with its own command. Both stay up until both commands
                 ended; A's exit code counts, and B's where A's is 0, or 77 and B's is neither. Lines start with "a| " and "b| "
  --netem RULE   with --hosts 2: what the wire does to packets, both ways, as tc-netem(8) writes it:
                 --netem "loss 1% delay 1ms"
  --offline      nothing is installed or fetched; what is missing makes a skip
  --help         this text

For COMMAND the environment holds
  RDMA_HOST_NAME                        a or b
  RDMA_HOST_SELF, RDMA_HOST_PEER        IPv4 addresses; with one machine both are its own
  RDMA_HOST_SELF_V6, RDMA_HOST_PEER_V6  IPv6 addresses
  RDMA_DEVICE, RDMA_NETDEV              rxe0 and wire0
  SOFT_ROCE_SHARE                       the folder of --share
and in PATH the tools of tests/soft-roce/tools: barrier, note, on, rdma-counts, rdma-counter.

Exit codes: COMMAND's own; 124: it was stopped after --timeout; 125: the machine did not boot or broke
down, or an option was wrong; 77: skipped, the packages cannot be had here. Every line of this script
starts with "soft-roce:", and a COMMAND that failed is named in one, so that the codes cannot be confused.
The images are kept in ${XDG_CACHE_HOME:-~/.cache}/cordma/soft-roce. Root is needed only to install.
TEXT
}

say() { printf 'soft-roce: %s\n' "$*" >&2; }
fail() { say "$*"; exit 125; }
skip() { say "skipped: $*"; exit 77; }
wrong() { fail "$*; --help lists the options"; }

timeout=300 share='' log='' cpus='' memory=2048 hosts=1 netem='' offline='' prepare='' names=()
boot_limit=${SOFT_ROCE_BOOT_LIMIT:-180}  # seconds; a machine takes 10 on an idle host
number() {  # number OPTION VALUE
  [[ ${2-} =~ ^[1-9][0-9]{0,5}$ ]] || wrong "$1 needs a number of at least 1, not '${2-}'"
}
value() { [ -n "${2-}" ] || wrong "$1 needs a value"; }  # value OPTION VALUE
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --timeout) number "$1" "${2-}"; timeout=$2; shift ;;
    --env)
      [[ ${2-} =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || wrong "--env needs the name of a variable, not '${2-}'"
      names+=("$2"); shift ;;
    --share) value "$1" "${2-}"; share=$2; shift ;;
    --log) value "$1" "${2-}"; log=$2; shift ;;
    --cpus) number "$1" "${2-}"; cpus=$2; shift ;;
    --memory) number "$1" "${2-}"; memory=$2; shift ;;
    --hosts) [[ ${2-} =~ ^[12]$ ]] || wrong "--hosts is 1 or 2, not '${2-}'"; hosts=$2; shift ;;
    --netem) value "$1" "${2-}"; netem=$2; shift ;;
    --offline) offline=yes ;;
    --prepare) prepare=yes ;;
    --help | -h) usage; exit 0 ;;
    *) wrong "unknown option '$1'" ;;
  esac
  shift
done

[ -n "$cpus" ] || cpus=$((hosts == 1 ? 4 : 2))
command_a=() command_b=()
if [ -z "$prepare" ]; then
  [ $# -gt 1 ] || wrong "no command; it stands after --"
  shift
  while [ $# -gt 0 ] && { [ "$hosts" = 1 ] || [ "$1" != -- ]; }; do command_a+=("$1"); shift; done
  [ $# -eq 0 ] || { shift; command_b=("$@"); }
  [ ${#command_a[@]} -gt 0 ] || wrong "no command for host a"
  [ "$hosts" = 1 ] || [ ${#command_b[@]} -gt 0 ] || wrong "--hosts 2 takes: -- COMMAND_A -- COMMAND_B"
  [ "$hosts" = 2 ] || [ -z "$netem" ] || wrong "--netem needs --hosts 2: one machine has no wire"
fi

# All files of this run are in one folder, which is removed at its end.
run=$(mktemp -d "${TMPDIR:-/tmp}/soft-roce-XXXXXX" 2> /dev/null) ||
  fail "no folder can be made in ${TMPDIR:-/tmp}; TMPDIR names another one"
unpacked=''  # a kernel, while its image is built
processes=()
# shellcheck disable=SC2317  # the trap calls it
cleanup() {
  local process
  for process in "${processes[@]}"; do kill "$process" 2> /dev/null || true; done
  wait
  rm -rf "$run" ${unpacked:+"$unpacked"}
}
trap cleanup EXIT
trap 'exit 125' INT TERM HUP

[ -n "$share" ] || share=$run/share
{ mkdir -p "$share/.hosts/a" "$share/.hosts/b" && share=$(cd "$share" && pwd -P); } 2> /dev/null ||
  fail "--share: $share cannot be written"
rm -rf "$share"/.hosts/*/* "$share/.notes"
if [ -n "$log" ]; then
  { : > "$log"; } 2> /dev/null || fail "--log: $log cannot be written"
fi

# shellcheck source=tests/soft-roce/image.sh
. "$here/../../.ci/packages.sh"
. "$here/image.sh"
set -o errtrace
trap 'fail "the image cannot be made; this failed: $BASH_COMMAND"' ERR
install_missing
prepare_image
trap - ERR
[ -z "$prepare" ] || { say "ready: $image"; exit 0; }

# Emulated processors share this machine's clock counter. By default the kernel does not trust it,
# and the next best clock takes a system call to read. The kernel cannot measure the counter's
# frequency on a busy machine either: it was once wrong by a factor of eight, and every time limit
# with it. The processor lacks features that are slow when emulated: copying byte by byte (rep
# movsb), a change of mode around each access to a program's memory, a fifth level of page tables.
accelerator=tcg,thread=multi clock='' processor=max,-erms,-fsrm,-smap,-smep,-la57
if khz=$(python3 "$here/tsc_khz.py"); then clock="tsc=reliable tsc_early_khz=$khz"; fi
if grep -Eqw 'vmx|svm' /proc/cpuinfo && (: <> /dev/kvm) 2> /dev/null; then accelerator=kvm clock='' processor=max; fi

# Input of guest/start.sh: the job as shell assignments; words and environment end with NUL.
write_job() {  # write_job HOST PEER SELF_NUMBER PEER_NUMBER COMMAND...
  local control=$run/control-$1 host=$1 peer=$2 self_number=$3 peer_number=$4 cwd=$PWD tools=$here/tools
  local name limit=$timeout
  shift 4
  mkdir "$control"
  printf '%s\n' "$here/guest/start.sh" > "$control/start"
  declare -p host peer self_number peer_number hosts cwd tools limit netem share |
    sed 's/^declare -[^ ]* //' > "$control/job"
  printf '%s\0' "$@" > "$control/command"
  printf 'PATH=%s\0' "$tools:$PATH:/usr/sbin:/sbin" > "$control/environment"
  for name in HOME LANG "${!CORDMA_@}" "${!SOFT_ROCE_@}" "${names[@]}"; do
    [ -z "${!name+set}" ] || printf '%s=%s\0' "$name" "${!name}"
  done >> "$control/environment"
}

show() { if [ "$hosts" = 1 ]; then cat; else sed -u "s/^/$1| /"; fi; }  # show HOST

boot() {  # boot HOST MAC_END: starts the machine; its process goes to machine[HOST]
  local host=$1 control=$run/control-$1 wire=()
  mkfifo "$control/out" "$control/err"
  show "$host" < "$control/out" & readers+=("$!")
  show "$host" < "$control/err" >&2 & readers+=("$!")
  if [ "$hosts" = 2 ]; then
    wire=(-netdev "stream,id=wire,addr.type=unix,addr.path=$run/wire,server=$([ "$1" = a ] && echo on || echo off)"
      -device "virtio-net-pci,netdev=wire,mac=52:54:00:00:00:0$2,romfile=")
  fi
  # An emulated kernel that patches itself (static keys) may loop endlessly: after 90 s the machine
  # is considered broken, and need not be waited for.
  timeout -k 5 $((boot_limit + timeout + 30)) qemu-system-x86_64 \
    -nodefaults -no-user-config -display none -no-reboot \
    -accel "$accelerator" -cpu "$processor" -smp "$cpus" -m "$memory" \
    -kernel "$image/kernel" -initrd "$image/initramfs" \
    -append "console=ttyS0 quiet panic=-1 oops=panic softlockup_panic=1 watchdog_thresh=45 mitigations=off $clock" \
    -serial "file:$control/kernel.log" \
    -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$control,mount_tag=control,security_model=none" \
    -virtfs "local,path=${share//,/,,},mount_tag=share,security_model=none" \
    -device virtio-serial-pci -chardev "file,id=out,path=$control/out" \
    -chardev "file,id=err,path=$control/err" \
    -device virtserialport,nr=1,chardev=out -device virtserialport,nr=2,chardev=err \
    "${wire[@]}" < /dev/null > "$control/qemu.log" 2>&1 &
  machine[$host]=$!
  processes+=("$!")
  # The other machine stays up until this one has ended, normally or not.
  { tail --pid="$!" -f /dev/null; : > "$share/.hosts/$host/gone"; : > "$share/.hosts/$host/ended"; } &
}

# Waits for the machine to reach its command within the boot limit, then for its end.
await() {  # await HOST
  local host=$1 control=$run/control-$1 waited=0
  until [ -e "$control/started" ]; do
    kill -0 "${machine[$host]}" 2> /dev/null || break
    if [ $((waited += 1)) -gt $((boot_limit * 10)) ]; then
      say "host $host has not started its command within $boot_limit s"
      kill "${machine[$host]}"
      break
    fi
    sleep 0.1
  done
  wait "${machine[$host]}" || true
}

# The first kernel fault and the lines after it, 100 lines; without a fault the last 60.
end_of_log() {
  awk '/BUG: |Oops: |general protection fault|Kernel panic|kernel BUG at/ && !first { first = NR }
    { lines[NR] = $0 }
    END { from = first ? first : NR - 59; to = first && first + 99 < NR ? first + 99 : NR
      for (i = from < 1 ? 1 : from; i <= to; ++i) print lines[i] }'
}

outcome() {  # outcome HOST: sets `code` and `broke_down`, and prints every result except 0
  local host=$1 control=$run/control-$1 of=''
  broke_down=''
  [ "$hosts" = 1 ] || of=" of host $host"
  if [ -s "$control/exit" ]; then
    code=$(cat "$control/exit")
    if [ -e "$control/stopped" ]; then
      say "the command$of was stopped: it took more than $timeout s (--timeout)"
      code=124
    elif [ "$code" -ne 0 ]; then
      say "the command$of ended with $code"
    fi
  else
    said=$(tail -n 3 "$control/qemu.log")
    say "the machine$of broke down; qemu said: ${said:-nothing. It may want more than --memory $memory}"
    code=125 broke_down=yes
  fi
  [ -z "$log" ] || cp "$control/kernel.log" "$log$([ "$host" = a ] || echo .b)" ||
    { say "the kernel's log$of could not be kept"; code=125; }
  [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || [ ! -s "$control/kernel.log" ] || {
    say "the kernel's log$of:"
    tr -d '\r' < "$control/kernel.log" | end_of_log >&2 || true
  }
}

readers=()
declare -A machine
write_job a "$([ "$hosts" = 1 ] && echo a || echo b)" 1 "$hosts" "${command_a[@]}"
boot a 1
if [ "$hosts" = 2 ]; then
  write_job b a 2 1 "${command_b[@]}"
  until [ -S "$run/wire" ]; do
    kill -0 "${machine[a]}" 2> /dev/null || break
    sleep 0.05
  done
  boot b 2
fi
await a
[ "$hosts" = 1 ] || await b
# A machine that never opened its outputs would leave their readers waiting.
for fifo in "$run"/control-*/{out,err}; do : <> "$fifo"; done
wait "${readers[@]}" || true

outcome a
if [ "$hosts" = 2 ]; then
  result=$code broken=$broke_down
  outcome b
  # A failure takes precedence over a skipped test.
  case $result,$code in
    0,* | 77,[!0]*) ;;
    *) code=$result broke_down=$broken ;;
  esac
fi
[ -z "$broke_down" ] || say "no verdict: the machine did not boot or broke down"  # machine.sh starts it once more
exit "$code"
