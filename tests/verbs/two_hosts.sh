#!/usr/bin/env bash
# Runs on two machines at once: two_hosts.sh PROGRAM NAME...: the cases of each NAME_test.cpp, in their order and each
# in a process of its own, as the client on a and the server on b. Where one is about a peer that is killed, it is the
# process on b.
set -euo pipefail
program=$1
shift
export CORDMA_TEST_TRANSPORT=verbs
failed=0
for name; do
  listed=$("$program" --list-test-cases --source-file="*/verbs/${name}_test.cpp")
  mapfile -t cases < <(grep -E '^[A-Z][0-9]+[:,]' <<< "$listed")
  count=$(sed -n 's/.*passing the current filters: //p' <<< "$listed")
  if [ "${#cases[@]}" -eq 0 ] || [ "${#cases[@]}" -ne "$count" ]; then
    echo "two_hosts.sh: ${name}_test.cpp has $count cases, ${#cases[@]} of them begin with a row: K9: ..." >&2
    exit 1
  fi
  number=0
  for case in "${cases[@]}"; do
    wanted=0 code=0
    [[ $RDMA_HOST_NAME = a || $case != *"the peer is killed"* ]] || wanted=137
    barrier "$name-$((number += 1))"  # what the last one did to the wire is undone, on both hosts
    started=$SECONDS
    # A comma would end the pattern.
    "$program" --source-file="*/verbs/${name}_test.cpp" --test-case="${case//,/?}" || code=$?
    echo "$case: $code, $((SECONDS - started)) s"
    [ "$code" -eq "$wanted" ] || failed=1
  done
done
exit "$failed"
