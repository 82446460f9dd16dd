# cordma-info reports available transports, the reason for each missing one, and the source of each
# setting: info.sh PROGRAMS, and the name of an RDMA device that exists.
source "$(dirname "$0")/expect.sh"
device=${2-}

expect 0 '^  shm$' cordma-info
[ -d /sys/class/infiniband ] || expect 0 'verbs: not here: ' cordma-info
expect 0 '^  transport = auto  \(default\)' cordma-info
expect 0 '^transports: shm (verbs )?tcp' cordma-info --brief
expect 2 '--help lists all options' cordma-info --nonsense
expect 2 '--json excludes --brief|--brief excludes --json' cordma-info --json --brief
if [ -d /sys/class/infiniband ]; then
  expect 0 '^hca_id:' cordma-info --devices
else
  expect 0 'no RDMA device found|this build has no verbs transport' cordma-info --devices
fi
if [ -n "$device" ]; then
  expect 0 '^  verbs$' cordma-info
  expect 0 '^transports: shm verbs tcp$' cordma-info --brief
  expect 0 "^RDMA: $device:1 [(]Ethernet, 4: ACTIVE[)]$" cordma-info --brief
  expect 0 "^hca_id:[[:blank:]]+$device$" cordma-info --devices
  # The output equals that of ibv_devinfo, followed by the lines that cordma adds.
  ibv_devinfo -v -d "$device" > "$work/expected"
  grep -q 'GID\[' "$work/expected" || fail "ibv_devinfo -v prints no GID"
  printf '\tcordma:\n\t\tP_Key 0 of port 1:\t\t0xffff\n' >> "$work/expected"
  head -c "$(wc -c < "$work/expected")" "$work/output" | diff "$work/expected" - >&2 ||
    fail "--devices does not begin with what ibv_devinfo -v prints"
  grep -q '^\s*fork:\s*\(not \)\?safe' "$work/output" || fail "--devices prints no rule for fork()"
fi
settings() {
  CORDMA_TRANSPORT=tcp expect 0 'transport = tcp  \(environment CORDMA_TRANSPORT\)' cordma-info
  CORDMA_TRANSPORT=sim expect 1 'CORDMA_TRANSPORT: .*sim.*auto, shm, tcp, verbs$' cordma-info
  CORDMA_SHM_DIRECTORY=/nonexistent/x expect 1 \
    'with shm.directory = /nonexistent/x \(environment CORDMA_SHM_DIRECTORY\) cannot be used: making' \
    cordma-info
  CORDMA_TRANSPORT=smoke expect 1 'CORDMA_TRANSPORT: .*smoke' cordma-info
  CORDMA_TRANSPORT=, expect 1 'CORDMA_TRANSPORT: .*names nothing' cordma-info
  expect 2 'json excludes --devices|devices excludes --json' cordma-info --json --devices
  # The environment overrides a file; an error in the file is reported with its position.
  printf '{"tcp": {"backlog": 7}, "shm": {"ring_bytes": "64k"}}' > "$work/settings"
  export CORDMA_CONFIG=$work/settings
  expect 0 'tcp.backlog = 7  \(file .*/settings\)' cordma-info
  CORDMA_TCP_BACKLOG=9 expect 0 'tcp.backlog = 9  \(environment CORDMA_TCP_BACKLOG\)' cordma-info
  CORDMA_TPC_BACKLOG=9 expect 0 'note: CORDMA_TPC_BACKLOG is no setting.*CORDMA_TCP_BACKLOG' cordma-info
  CORDMA_TPC_BACKLOG=9 expect 0 '^note: CORDMA_TPC_BACKLOG is no setting' cordma-info --brief
  printf '{"tcp": {"backlog": "many"}}' > "$work/settings"
  expect 1 'settings: tcp.backlog: .*many' cordma-info
  printf '{"tcp": {' > "$work/settings"
  expect 1 'invalid_value: .*settings' cordma-info
  CORDMA_CONFIG=/nonexistent/settings expect 1 'not_found: .*/nonexistent/settings' cordma-info
  mkfifo "$work/pipe"
  CORDMA_CONFIG=$work/pipe expect 1 'invalid_value: .*pipe: is no regular file' cordma-info
  CORDMA_CONFIG=/ expect 1 'invalid_value: /: is no regular file: name a file that holds' cordma-info
  unset CORDMA_CONFIG
  CORDMA_SHM_DIRECTORY="$work/"$'\xff' expect 0 '"value": ".*\\ufffd|"value": ".*�' cordma-info --json
}
# Not run with a device, because emulated processors take a second for each program.
[ -n "$device" ] || settings

"$programs/cordma-info" --json | python3 -c '
import json, sys
facts = json.load(sys.stdin)
device = sys.argv[1]
assert {t["transport"] for t in facts["transports"]} >= {"shm", "tcp"}
assert not device or device in [p["device"] for p in facts["rdma_ports"]]
assert not device or "verbs" in [t["transport"] for t in facts["transports"]]
assert facts["rdma_ports"] or "no RDMA device found" in facts["no_rdma_device"]
assert all({"key", "value", "source"} <= s.keys() for s in facts["configuration"])
' "$device" || fail "the JSON is not what it should be"
"$programs/cordma-info" > /dev/full 2> "$work/output" && fail "a full disk is no error"
grep -q 'standard output' "$work/output" || fail "a full disk is not named"
