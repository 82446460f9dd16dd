# A tree with every kind of file system entry, copied locally, to a daemon and back: rsync finds no
# difference. PROGRAMS TRANSPORT
transport=$2
host=${RDMA_HOST_SELF:-127.0.0.1}  # an address that the transport reaches
source "$(dirname "$0")/expect.sh"
need() { command -v "$1" > /dev/null || { echo "skipped: $1 is missing"; exit 77; }; }
need rsync
need setfattr

# Fails if rsync would still change anything.
same() {  # same SOURCE/ TARGET/
  local left
  left=$(rsync -aniHc --delete "$1" "$2") || fail "rsync cannot compare $1 and $2"
  [ -z "$left" ] || fail "$2 is not as $1: $left"
  diff -r --no-dereference "$1" "$2" || fail "$2 has other contents than $1"
}
cp_() { expect "$1" "$2" cordma-cp --transport "$transport" "${@:3}"; }

files=1500

plant() {  # plant DIRECTORY
  mkdir -p "$1"/{empty,deep/er/still,"with space",$'new\nline',-dash}
  : > "$1/zero"
  printf x > "$1/one"
  head -c 100000 /dev/urandom > "$1/small"
  head -c 131072 /dev/urandom > "$1/threshold"
  head -c 131073 /dev/urandom > "$1/above"
  head -c 1048576 /dev/urandom > "$1/chunk"
  head -c 1048577 /dev/urandom > "$1/chunk and one"
  fill "$1/deep/large" 33000001
  printf hidden > "$1/.hidden"
  printf odd > "$1/$(printf '\377\376')"
  printf long > "$1/$(printf 'n%.0s' {1..255})"
  printf dash > "$1/-dash/-rf"
  ln "$1/small" "$1/deep/er/again"
  ln -s ../small "$1/deep/link"
  ln -s /nowhere/at/all "$1/dangling"
  ln "$1/dangling" "$1/deep/its other name"
  ln -s . "$1/loop"
  truncate -s 20M "$1/hollow"
  printf middle | dd of="$1/hollow" bs=1 seek=10000000 conv=notrunc status=none
  setfattr -n user.comment -v "some words" "$1/one" || no_attributes=$1
  chmod 640 "$1/one"
  chmod 4755 "$1/small"
  chmod 1777 "$1/empty"
  touch -d '2001-02-03 04:05:06.123456789' "$1/one" "$1/deep/er"
  touch -h -d '1999-12-31 23:59:59.5' "$1/dangling"
  local at
  at=$1/deep$(printf '/d%s' {1..200})
  mkdir -p "$at"
  printf bottom > "$at/bottom"
  for i in $(seq "$files"); do printf '%s' "$i" > "$1/with space/file $i"; done
}

no_attributes=''
plant "$work/tree"
export TMPDIR=$work

# Many more files than the limit of open files.
(ulimit -n 160 && cp_ 0 ' over '"$transport" -aHX "$work/tree/" "$work/here/")
same "$work/tree/" "$work/here/"
if [ -n "$no_attributes" ]; then
  echo "not checked: attributes, which the file system of $no_attributes has not"
else
  [ "$(getfattr --only-values -n user.comment "$work/here/one")" = "some words" ] || fail "an attribute is lost"
fi
[ "$(du -k "$work/here/hollow" | cut -f1)" -lt 4000 ] || fail "a hole was filled"
[ "$(stat -c %h "$work/here/small")" = 2 ] || fail "a hard link is lost"
find "$work/here" -name '*cordma*' | grep -q . && fail "something is left over"
cp_ 0 '^0 files, 0 B .*the same' -aH "$work/tree/" "$work/here/"

# ACLs, and the default ACLs of directories.
mkdir -p "$work/acl/d"
if setfacl -m u:1:r "$work/acl/d" 2> /dev/null; then
  printf x > "$work/acl/f"
  printf x > "$work/acl/plain"
  setfacl -m u:1234:rwx "$work/acl/f"
  setfacl -m u:77:r "$work/acl/d"
  setfacl -d -m g:55:rx "$work/acl/d"
  : > "$work/acl/d/made"
  for option in -A -X; do
    cp_ 0 '^3 files' -a $option "$work/acl/" "$work/kept$option/"
    left=$(rsync -aniAXc --delete "$work/acl/" "$work/kept$option/")
    [ -z "$left" ] || fail "ACLs are not kept by $option: $left"
  done
  cp_ 0 '^3 files' -a "$work/acl/" "$work/bare/"
  [ -z "$(getfacl -Rs "$work/bare")" ] || fail "ACLs are kept though nobody asked"
  # A removed ACL is also removed at the target.
  setfacl -b "$work/acl/f"
  setfacl -k "$work/acl/d"
  cp_ 0 '^0 files' -aA "$work/acl/" "$work/kept-A/"
  left=$(rsync -aniAXc --delete "$work/acl/" "$work/kept-A/")
  [ -z "$left" ] || fail "an ACL that is gone was kept: $left"
else
  echo "not checked: ACLs, as there is no setfacl (package acl), or the file system of $work has none"
fi

# Devices, FIFOs and sockets with -a, as far as the user may create them, and their additional hard
# links.
mkdir "$work/special"
mkfifo -m 640 "$work/special/fifo"
ln "$work/special/fifo" "$work/special/other"
python3 -c 'import os, stat, sys; os.mknod(sys.argv[1], stat.S_IFSOCK | 0o600)' "$work/special/socket"
[ "$(id -u)" -ne 0 ] || mknod -m 600 "$work/special/null" c 1 3 || true
cp_ 0 '[34] devices, FIFOs and sockets|[23] devices, FIFOs' -aH "$work/special/" "$work/specials/"
cp_ 0 '^0 files' -aH "$work/special/" "$work/specials/"
! grep -q devices "$work/output" || fail "what is there was made again: $(cat "$work/output")"
left=$(rsync -aniH --delete "$work/special/" "$work/specials/")
[ -z "$left" ] || fail "another device, FIFO or socket: $left"
mknod -m 600 "$work/specials/other.new" p && mv "$work/specials/other.new" "$work/specials/socket"
cp_ 0 '1 devices, FIFOs and sockets' -aH "$work/special/" "$work/specials/"
[ -S "$work/specials/socket" ] || fail "a FIFO was taken for a socket"

# Changed and removed entries are updated, and nothing else.
printf changed > "$work/tree/one"
rm -r "$work/tree/empty" "$work/tree/dangling"
mkdir "$work/tree/dangling"
rm "$work/tree/zero"
ln -s one "$work/tree/zero"
cp_ 0 '^deleted +empty' -aHnv --delete "$work/tree/" "$work/here/"
[ -d "$work/here/empty" ] || fail "a dry run did something"
cp_ 0 '^1 files, 7 B .*1 deleted' -aHv --delete "$work/tree/" "$work/here/"
same "$work/tree/" "$work/here/"

cp_ 0 "^would copy $((files + 14)) files" -an "$work/tree/" "$work/none/at/all/"
[ ! -e "$work/none" ] || fail "a dry run made its target"

# As with rsync, excluded files stay at the target, and so do the directories that contain them.
mkdir -p "$work/mine/gone/kept" "$work/theirs"
touch "$work/mine/a.o" "$work/mine/b" "$work/mine/gone/kept/c.o" "$work/theirs/new"
cp_ 0 '1 deleted' -a --delete --exclude '*.o' "$work/theirs/" "$work/mine/"
[ -e "$work/mine/a.o" ] && [ -e "$work/mine/gone/kept/c.o" ] || fail "an excluded file was deleted"
[ ! -e "$work/mine/b" ] && [ -e "$work/mine/new" ] || fail "what is not excluded was not deleted"

# With a daemon: push, push again without work, pull.
mkdir "$work/box"
printf 'not to be guessed\n' > "$work/token"
serve cordma-cpd --listen "$host:0" --module-rw "box=$work/box" --token-file "$work/token" --transport "$transport"
port=${address##*:}
with=(-aHX --port "$port" --token-file "$work/token")
cp_ 0 ' over '"$transport" "${with[@]}" "$work/tree/" "$host:box/in/here/"
same "$work/tree/" "$work/box/in/here/"
cp_ 0 '^0 files' "${with[@]}" "$work/tree/" "$host::box/in/here"
cp_ 0 ' over '"$transport" "${with[@]}" "$host:box/in/here" "$work/back"
same "$work/tree/" "$work/back/here/"
cp_ 0 '^1 files' "${with[@]}" "cordma://$host:$port/box/in/here/chunk" "$work/chunk again"
cmp "$work/tree/chunk" "$work/chunk again"
cp_ 0 '^2 files' "${with[@]}" "$host:box/in/here/chunk" "$host:box/in/here/one" "$work/two/"
cmp "$work/tree/chunk" "$work/two/chunk"
printf '%s\n' one deep/large none > "$work/list"
cp_ 23 'box/in/here/none: No such file' "${with[@]}" --files-from "$work/list" "$host:box/in/here" "$work/listed"
cmp "$work/tree/deep/large" "$work/listed/deep/large"
[ "$(ls "$work/listed" | tr '\n' ' ')" = 'deep one ' ] || fail "not what was listed: $(find "$work/listed")"
printf '%s\n' deep/large > "$work/list"
cp_ 0 '^1 files' "${with[@]}" --exclude deep --files-from "$work/list" "$host:box/in/here" "$work/led"
cmp "$work/tree/deep/large" "$work/led/deep/large"
mkdir -p "$work/box/nested/a/b/c"
echo x > "$work/box/nested/a/b/c/x"
printf '%s\n' a a/b a/b/c/x > "$work/list"
for rule in a b c; do
  cp_ 0 '^1 files' "${with[@]}" --exclude $rule --files-from "$work/list" "$host:box/nested" "$work/led.$rule"
  [ -f "$work/led.$rule/a/b/c/x" ] || fail "--exclude $rule keeps what is listed away"
done
cp_ 0 '^0 files.* 1 the same' "${with[@]}" -r --exclude a --files-from "$work/list" "$host:box/nested" "$work/led.a"
cp_ 1 'a/b/c/x is in a, which is listed as well, but excluded with a/b:' "${with[@]}" -r --exclude b --files-from "$work/list" "$host:box/nested" "$work/led.b"
cp_ 5 'no module' -a --port "$port" "$work/tree/" "$host:box/in/"
cp_ 5 'no module' "${with[@]}" "$work/tree/" "$host:other/in/"
cp_ 1 'leads|\.\.' "${with[@]}" "$work/tree/" "$host:box/../etc/"
# No path leads out of the module, neither through an existing symlink nor through one that a client
# has sent.
ln -s /etc "$work/box/out"
mkdir "$work/outside" "$work/links"
ln -s "$work/outside" "$work/links/sent"
ln -s ../.. "$work/links/up"
ln -s "$work/outside/none" "$work/links/dangling"
cp_ 0 . "${with[@]}" "$work/links" "$host:box/"
ways=({out,links/sent,links/up}{/,/x,/x/,})
for way in "${ways[@]}"; do
  cp_ 5 'leads out|Not a directory|No such file' "${with[@]}" "$work/tree/one" "$host:box/$way"
  case $way in out | links/sent | links/up) continue ;; esac  # the symlink itself may be copied
  cp_ 5 'leads out|Not a directory|No such file' "${with[@]}" "$host:box/$way" "$work/stolen/"
done
cp_ 5 'No such file|leads out' "${with[@]}" "$work/tree/one" "$host:box/links/dangling"
cp_ 5 'No such file|leads out' "${with[@]}" "$work/tree/" "$host:box/links/dangling/"
[ -z "$(ls -A "$work/outside")" ] || fail "something was written outside of the module"
[ ! -e "$work/stolen" ] || [ -z "$(ls -A "$work/stolen")" ] || fail "something was read outside of the module"
# A symlink itself can be copied.
cp_ 0 . "${with[@]}" "$host:box/out" "$work/had/"
[ "$(readlink "$work/had/out")" = /etc ] || fail "a symlink is not copied as one"

# Single files, with the rules of cp.
cp_ 0 '^1 files' "$work/tree/one" "$work/renamed"
cmp "$work/tree/one" "$work/renamed"
mkdir "$work/into"
cp_ 0 '^1 files' "$work/tree/one" "$work/into"
cmp "$work/tree/one" "$work/into/one"
cp_ 0 '^1 files' "$work/tree/one" "$work/made/"
cmp "$work/tree/one" "$work/made/one"
cp_ 0 'is a directory' "$work/tree" "$work/nothing/"
cp_ 23 'No such file' "$work/tree/none" "$work/nothing/"
cp_ 0 . -r --exclude '*' --include x "$work/tree/" "$work/excluded/"
[ -z "$(ls -A "$work/excluded")" ] || fail "something was not excluded"
