# shellcheck shell=bash
# Sourced inside the virtual machine: runs a command so that none of its processes remain.

exec {never}<> <(:)  # reading from it with a time limit waits without a process

# Reports the state of every thread of a contained command that does not end.
report_processes() {
  local task ours
  ours=$(readlink /proc/self/ns/pid)
  for task in /proc/[0-9]*/task/[0-9]*; do
    [ "$(readlink "$task/ns/pid")" != "$ours" ] || continue
    printf '%s (%s) in %s: %s\n' "${task#/proc/}" "$(cat "$task/comm")" "$(head -n 1 "$task/stack")" \
      "$(tr '\0' ' ' < "${task%/task/*}/cmdline" | tail -c 150)"
  done 2> /dev/null
}

# shellcheck disable=SC2034  # `stopped` is for the caller
# contained SECONDS COMMAND...: returns its exit code; if it took longer, returns 124 and sets
# `stopped`. The command has a separate process namespace: processes that it leaves running end with
# it.
contained() {
  local limit=$1 code=0 process watchdog
  shift
  # shellcheck disable=SC2016
  unshare --pid --fork --kill-child --mount-proc -- sh -c '"$@"; exit "$?"' sh "$@" \
    < /dev/null {never}>&- &
  process=$!
  {
    read -rt "$limit" -u "$never" _
    echo "soft-roce: still running after $limit s:"
    report_processes
    kill -KILL "$process"
    exit 9
  } >&2 &
  watchdog=$!
  wait "$process" 2> /dev/null || code=$?
  kill "$watchdog" 2> /dev/null
  stopped=''
  wait "$watchdog" 2> /dev/null
  [ $? -ne 9 ] || stopped=yes code=124
  return "$code"
}
