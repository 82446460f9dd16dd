# Sourced by the scripts about samples, which run two of them side by side.
source "$(dirname "$0")/expect.sh"
host=${RDMA_HOST_SELF:-127.0.0.1}  # an address that the transport reaches

# start PROGRAM ARGUMENT...: starts it in the background as serve does, without waiting until it
# listens.
start() {
  local program=$1
  shift
  : > "$work/served"
  "$programs/$program" "$@" <&0 >> "$work/served" 2>&1 &
  server=$!
  background+=("$server")
}

# begin WAY PROGRAM ARGUMENT...: starts the side that waits; sets `there`, the options by which the
# other side connects to it.
begin() {
  local way=$1
  shift
  if [ "$way" = address ]; then
    serve "$@" --listen "$host:0"
    there=(--connect "$address")
  else
    start "$@" --descriptor "$work/pair"
    there=(--descriptor "$work/pair")
  fi
}

# ended CODE REGEX: the program that was started last exits with CODE, and has printed a line that
# matches.
ended() {
  local code=$1 regex=$2 got=0
  wait "$server" || got=$?
  if [ "$got" -ne "$code" ] || ! grep -Eq -e "$regex" "$work/served"; then
    cat "$work/served" >&2
    fail "the other side ended with $got, not $code, or printed no line like: $regex"
  fi
}

# printed REGEX FILE PROCESS: waits until PROCESS has printed a matching line to FILE.
printed() {
  local waited=0 alive
  for (( ; ; waited += 1)); do
    alive=yes
    kill -0 "$3" 2> /dev/null || alive=''  # before the grep: an exited process prints no more
    ! grep -Eq -e "$1" "$2" || return 0
    if [ -z "$alive" ] || [ "$waited" -gt 600 ]; then
      cat "$2" >&2
      fail "no line came like: $1"
    fi
    sleep 0.05
  done
}

# programs_of PAIR: sets `waits` and `goes`, the program that is started first and the other one.
programs_of() {
  case $1 in
    message*) waits=sample-$1_receiver goes=sample-$1_sender ;;
    *) waits=sample-$1_responder goes=sample-$1_requester ;;
  esac
}
