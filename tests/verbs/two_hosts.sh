#!/usr/bin/env bash
# two_hosts.sh PROGRAM [--only REGEX] [--rounds N] NAME...
# Runs on two machines at once: the cases of each NAME_test.cpp in order, one process for each, the
# client on a and the server on b. A case about a killed peer kills the process on b. --only selects
# cases by name, and --rounds repeats the complete run.
set -euo pipefail
program=$1 only='' rounds=1
shift
while [[ ${1-} = --* ]]; do
  case $1 in
    --only) only=$2 ;;
    --rounds) rounds=$2 ;;
    *) echo "two_hosts.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift 2
done
export CORDMA_TEST_TRANSPORT=verbs
failed=0 chosen=0
run_file() {  # run_file NAME ROUND
  local name=$1 listed cases count number=0 case wanted code started
  listed=$("$program" --list-test-cases --source-file="*/verbs/${name}_test.cpp")
  mapfile -t cases < <(grep -E '^[A-Z][0-9]+[:,]' <<< "$listed")
  count=$(sed -n 's/.*passing the current filters: //p' <<< "$listed")
  if [ "${#cases[@]}" -eq 0 ] || [ "${#cases[@]}" -ne "$count" ]; then
    echo "two_hosts.sh: ${name}_test.cpp has $count cases, ${#cases[@]} of them begin with a row: K9: ..." >&2
    exit 1
  fi
  for case in "${cases[@]}"; do
    number=$((number + 1)) wanted=0 code=0
    [[ $case =~ $only ]] || continue
    chosen=$((chosen + 1))
    [[ $RDMA_HOST_NAME = a || $case != *"the peer is killed"* ]] || wanted=137
    export TWO_HOSTS_CASE=$name-$number-$2
    barrier "$TWO_HOSTS_CASE"  # both hosts have restored the wire
    started=$SECONDS
    # A comma would end the pattern.
    "$program" --source-file="*/verbs/${name}_test.cpp" --test-case="${case//,/?}" || code=$?
    echo "$case: $code, $((SECONDS - started)) s"
    [ "$code" -eq "$wanted" ] || failed=1
  done
}
for ((round = 1; round <= rounds; round += 1)); do
  [ "$rounds" -eq 1 ] || echo "two_hosts.sh: round $round of $rounds"
  for name; do run_file "$name" "$round"; done
done
[ "$chosen" -gt 0 ] || { echo "two_hosts.sh: no case matches '$only'" >&2; exit 1; }
exit "$failed"
