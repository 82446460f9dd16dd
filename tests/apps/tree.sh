# A tree with every kind of entry is copied unchanged, over both transports.
source "$(dirname "$0")/expect.sh"

tree=$work/tree
mkdir -p "$tree/empty directory" "$tree/deep/er/still" "$tree/guarded"
printf 'hello\n' > "$tree/deep/er/still/hello"
: > "$tree/nothing in it"
head -c 3333333 /dev/urandom > "$tree/more than three windows"
for i in $(seq 300); do printf '%s' "$i" > "$tree/deep/$i"; done
printf 'x' > "$tree/deep/a name with \"quotes\", ünïcode and
a line end"
ln -s ../nowhere "$tree/deep/dangling"
ln -s deep "$tree/link to a directory"
chmod 0640 "$tree/deep/1"
chmod 0751 "$tree/deep/2"
printf 'inside' > "$tree/guarded/file"
chmod 0555 "$tree/guarded"
mkfifo "$tree/pipe"

serve cordma-demo serve --tree "$tree" --listen 127.0.0.1:0
grep -q 'left out: pipe: neither file' "$work/served" || fail "the pipe was not named"
for transport in shm tcp; do
  for wait in polling event adaptive; do
    into=$work/$transport-$wait
    expect 0 'verified: all 3[0-9][0-9] entries are identical' cordma-demo pull "$address" \
      --transport $transport --wait $wait --into "$into" --compare "$tree"
    grep -q 'pulled 305 files, 5 directories, 2 links' "$work/output" || fail "the counts are wrong"
    [ "$(stat -c %a "$into/guarded")" = 555 ] || fail "permissions of a directory were lost"
    [ "$(readlink "$into/deep/dangling")" = ../nowhere ] || fail "a link was lost"
  done
done

# Differences are found and named; a target that is in use is not touched.
printf 'hullo\n' > "$tree/deep/er/still/hello"
mkdir "$work/old" && cp -a "$work/shm-event/." "$work/old/"
expect 1 'differs: deep/er/still/hello is there with two contents' cordma-demo pull "$address" \
  --into "$work/new" --compare "$work/old"
# Additional entries of the other tree are differences. A directory is named once, with all its
# contents.
mkdir "$work/more" && cp -a "$work/shm-event/." "$work/more/"
printf 'hullo\n' > "$work/more/deep/er/still/hello"
mkdir -p "$work/more/besides/deeper" && : > "$work/more/besides/deeper/file"
: > "$work/more/deep/one"
expect 1 "differs: besides is only in $work/more" cordma-demo pull "$address" \
  --into "$work/newer" --compare "$work/more"
grep -q "differs: deep/one is only in" "$work/output" || fail "a file that is too many was not named"
[ "$(grep -c differs: "$work/output")" -eq 2 ] || fail "more was named than is there besides"
expect 1 'is not an empty directory' cordma-demo pull "$address" --into "$work/new"
expect 1 'unreachable' cordma-demo pull 127.0.0.1:1 --into "$work/never"
expect 2 '--help lists' cordma-demo pull
for client in "pull 127.0.0.1:1 --into $work/never" "serve --tree $tree"; do
  # shellcheck disable=SC2086
  expect 2 '--transport: bogus not in .auto,shm,tcp,verbs.' cordma-demo $client --transport bogus
  # shellcheck disable=SC2086
  expect 2 '--wait: now not in .polling,event,adaptive.' cordma-demo $client --wait now
done
expect 2 'lacks a port from 0 to 65535' cordma-demo pull nowhere --into "$work/never"
expect 2 'lacks a port from 0 to 65535' cordma-demo serve --tree "$tree" --listen nowhere
expect 2 '--help lists' cordma-demo serve --tree /nonexistent
kill -0 "$server" || fail "the server is gone"

# A file that changes between the listing and its transfer is reported, whether it grew, shrank or
# only changed. The client is stopped while it receives a large file, so that its server has to wait
# as well. The file system determines the files that follow that one.
moving=$work/moving
mkdir "$moving"
serve cordma-demo serve --tree "$moving" --listen 127.0.0.1:0
change_in_time() {  # change_in_time LARGE-FILE
  local pulled=$work/changing-$1 client ended=0 i changed=0 kinds=0 in_time=no
  rm -f "$moving"/large*
  truncate -s 256M "$moving/$1"
  for i in {1..30}; do printf before > "$moving/$i"; done
  "$programs/cordma-demo" pull "$address" --into "$pulled" > "$work/output" 2>&1 &
  client=$!
  background+=("$client")
  until [ -e "$pulled/$1" ]; do kill -0 "$client" 2> /dev/null || break; done
  kill -STOP "$client" 2> /dev/null || true
  [ "$(stat -c %s "$pulled/$1")" -ge 200000000 ] || in_time=yes
  for i in {1..30}; do
    [ ! -e "$pulled/$i" ] || continue
    case $((i % 3)) in
      0) printf 'before and after' > "$moving/$i" ;;
      1) printf 'now' > "$moving/$i" ;;
      2) printf 'afterw' > "$moving/$i" ;;
    esac
    changed=$((changed + 1)) kinds=$((kinds | 1 << i % 3))
  done
  kill -CONT "$client" 2> /dev/null || true
  wait "$client" || ended=$?
  rm -rf "$pulled"
  [ $in_time = yes ] && [ $kinds -eq 7 ] || return 1
  [ $ended -eq 1 ] || fail "files changed, and the client ended with $ended"
  grep -q "$changed files changed while they were read" "$work/output" || fail "$(cat "$work/output")"
}
for name in large{1..20}; do ! change_in_time "$name" || break; done
[ "$name" != large20 ] || fail "the client was never stopped in time"

# A directory that cannot be read is left out and not copied as an empty one. A process that can
# read it does not report its contents as a difference. Root without its privileges is treated like
# any other user.
[ "$(id -u)" -ne 0 ] || under=(setpriv --bounding-set=-all --inh-caps=-all)
if ! "${under[@]}" true; then
  echo "root cannot give its privileges up here: directories that cannot be read are not tested"
  exit 0
fi
mkdir "$tree/closed" && : > "$tree/closed/file"
chmod 0300 "$tree/closed"
serve cordma-demo serve --tree "$tree" --listen 127.0.0.1:0
grep -q 'left out: closed: Permission denied' "$work/served" || fail "the directory was not named"
under=()
expect 0 'the server left 2 out' cordma-demo pull "$address" --transport tcp \
  --into "$work/without" --compare "$tree"
[ ! -e "$work/without/closed" ] || fail "a directory that cannot be read was made"
