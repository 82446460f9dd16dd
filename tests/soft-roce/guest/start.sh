#!/usr/bin/env bash
# The first process of the virtual machine after its root is mounted: sets up the network and rxe0,
# runs the command of the job, writes its exit code, and switches the machine off. If it fails
# itself, there is no exit code, and the reason is in the kernel's log.
set -uo pipefail
trap switch_off EXIT
switch_off() {
  echo o > /proc/sysrq-trigger
  while :; do moment; done  # until it is off
}
control=/run/soft-roce
host='' peer='' self_number='' peer_number='' hosts='' cwd='' tools='' limit='' netem='' share=''
# shellcheck source=/dev/null
. "$control/job"  # written by run.sh: values for all of these
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=tests/soft-roce/guest/contained.sh
. "$tools/../guest/contained.sh"

fail() { echo "soft-roce start: $*" > /dev/console; exit 1; }

set_up_limits() {
  ulimit -l unlimited
  ulimit -Hn 65536
  ulimit -c 0
  # libibverbs loads every configured provider, which takes most of a short program's time here.
  find /etc/libibverbs.d -name '*.driver' ! -name rxe.driver -delete
  hostname "soft-roce-$host"
  mkdir -p "$share"
  mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share "$share" ||
    fail "cannot mount $share"
}

set_up_network() {
  ip link set lo up
  if [ "$hosts" = 1 ]; then
    ip link add wire0 type veth peer name wire1 || fail "no veth"
    ip link set wire1 mtu 4200 up
  else
    ip link set "$(basename /sys/bus/virtio/drivers/virtio_net/virtio*/net/*)" name wire0 ||
      fail "no virtio network card"
    # shellcheck disable=SC2086
    [ -z "$netem" ] || tc qdisc add dev wire0 root netem limit 100000 $netem ||
      fail "tc does not take: $netem"
  fi
  # Link-local addresses are available at once, like the others: no other host can have them.
  echo 0 | tee /proc/sys/net/ipv6/conf/wire*/accept_dad > /dev/null || fail "no IPv6"
  ip link set wire0 mtu 4200 up || fail "wire0 takes no MTU of 4200"
  ip addr add "10.77.0.$self_number/24" dev wire0
  ip addr add "fd77::$self_number/64" dev wire0
  rdma link add rxe0 type rxe netdev wire0 || fail "no rxe0"
}

fill_environment() {  # sets `inside`, the words that start a command in its environment
  mapfile -d '' inside < "$control/environment"
  inside=(env -i "${inside[@]}" "RDMA_HOST_NAME=$host" RDMA_DEVICE=rxe0 RDMA_NETDEV=wire0
    "RDMA_HOST_SELF=10.77.0.$self_number" "RDMA_HOST_PEER=10.77.0.$peer_number"
    "RDMA_HOST_SELF_V6=fd77::$self_number" "RDMA_HOST_PEER_V6=fd77::$peer_number"
    "SOFT_ROCE_SHARE=$share")
}

moment() { read -rt "${1-0.1}" -u "$never" _; }

await_file() {  # await_file FILE: run.sh bounds this
  until [ -e "$1" ]; do moment; done
}

# Two processes carry the output streams to run.sh: a port can be opened only once.
connect_streams() {
  local ports
  until ports=(/dev/vport*p[12]) && [ ${#ports[@]} -eq 2 ]; do moment; done
  mkfifo /run/soft-roce.out /run/soft-roce.err
  cat < /run/soft-roce.out > "${ports[0]}" & carriers=("$!")
  cat < /run/soft-roce.err > "${ports[1]}" & carriers+=("$!")
  exec > /run/soft-roce.out 2> /run/soft-roce.err
}

# Executes requests of tools/on for this host, until both hosts have ended. A request is a folder
# with the words of a command; its exit code is written last.
serve_requests() {
  local request words pause=0.1
  # Each check is a request to the share: ten a second take a seventh of an emulated processor.
  [ "$hosts" = 2 ] || pause=0.5
  until [ -e "$share/.hosts/$host/ended" ] && [ -e "$share/.hosts/$peer/ended" ]; do
    moment "$pause"
    for request in "$share/.hosts/$host"/*/ready; do
      [ -e "$request" ] || continue
      rm "$request"
      request=${request%/ready}
      mapfile -d '' words < "$request/command"
      {
        "${inside[@]}" "${words[@]}" < /dev/null > "$request/output" 2>&1
        echo "$?" > "$request/code.new"
        mv "$request/code.new" "$request/code"
      } &
    done
  done
}

set_up_limits
set_up_network
fill_environment
connect_streams
dmesg -n 7  # all later messages of the kernel concern the command
cd "$cwd" || fail "no folder $cwd"
: > "$share/.hosts/$host/up"
await_file "$share/.hosts/$peer/up"
: > "$control/started"
serve_requests &
server=$!
mapfile -d '' words < "$control/command"
contained "$limit" "${inside[@]}" "${words[@]}"
code=$?
[ -z "$stopped" ] || : > "$control/stopped"
echo "$code" > "$control/exit"
: > "$share/.hosts/$host/ended"
wait "$server"
exec > /dev/console 2>&1
wait "${carriers[@]}"
cd /
umount "$share"
