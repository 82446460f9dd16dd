#!/usr/bin/env bash
# machine.sh NAME LIST COMMAND...: runs a command that boots machines, and exits with its code. If the machine did not
# boot or broke down, it appends NAME to the file LIST and runs the command once more; nothing else is repeated.
set -uo pipefail
name=$1 list=$2
shift 2
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
once() {
  exec 4>&1
  "$@" 2>&1 >&4 | tee "$errors" >&2
  return "${PIPESTATUS[0]}"
}
code=0
once "$@" || code=$?
if [ "$code" -eq 125 ] && grep -q '^soft-roce: no verdict: ' "$errors"; then
  printf 'soft-roce: %s is started once more\n' "$name" | tee -a "$list" >&2
  code=0
  once "$@" || code=$?
fi
exit "$code"
