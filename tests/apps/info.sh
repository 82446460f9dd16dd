# cordma-info says what there is, what is missing and why, and where a setting comes from.
source "$(dirname "$0")/expect.sh"

expect 0 '^  shm$' cordma-info
expect 0 'verbs: not here: ' cordma-info
expect 0 'CORDMA_TRANSPORT = auto  \(default\)' cordma-info
expect 0 '^transports: shm tcp' cordma-info --brief
expect 2 '--help lists all options' cordma-info --nonsense
CORDMA_TRANSPORT=tcp expect 0 'CORDMA_TRANSPORT = tcp  \(environment\)' cordma-info
CORDMA_TRANSPORT=smoke expect 1 'CORDMA_TRANSPORT: .*smoke' cordma-info
"$programs/cordma-info" --json | python3 -c '
import json, sys
facts = json.load(sys.stdin)
assert {t["transport"] for t in facts["transports"]} >= {"shm", "tcp"}
assert facts["rdma_devices"] or "no RDMA device found" in facts["no_rdma_device"]
assert all({"key", "value", "source"} <= s.keys() for s in facts["configuration"])
' || fail "the JSON is not what it should be"
