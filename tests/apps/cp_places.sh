# Behaviour that depends on the file system, the directory and the user of the target; compared with
# rsync if it is installed.
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp "${@:3}"; }
programs=$(realpath "$programs")
cd "$work"
chmod 755 "$work"
blocks() { echo $(($(stat -c %b "$1") / 2)); }  # in KiB

# --sparse: zeros become holes, in long and short files; without it, the data is written as read.
python3 - <<'PYTHON'
open("zeros", "wb").write(bytes(10 << 20))
with open("spread", "wb") as file:
    for _ in range(68):
        file.write(b"x" * 4096 + bytes(252 << 10))
open("short", "wb").write(b"x" * 4096 + bytes(90_000) + b"y")
PYTHON
mkdir s
cp_ 0 '^3 files' zeros spread short full/
cp_ 0 '^3 files' -S zeros spread short s/
for file in zeros spread short; do cmp "$file" "s/$file" || fail "--sparse makes another file of $file"; done
holes=yes
truncate -s 1M hollow
[ "$(blocks hollow)" -lt 100 ] || holes=no
if [ $holes = yes ]; then
  [ "$(blocks full/zeros)" -ge 10240 ] || fail "zeros are left out though nobody asked"
  [ "$(blocks s/zeros)" -lt 64 ] || fail "--sparse: zeros take $(blocks s/zeros) KiB"
  [ "$(blocks s/spread)" -lt 1000 ] || fail "--sparse: zeros between data take $(blocks s/spread) KiB"
  [ "$(blocks s/short)" -lt 64 ] || fail "--sparse: a short file takes $(blocks s/short) KiB"
fi
# Over an existing file, and over the remains of a transfer with a wrong bit in a range of zeros.
for way in '' --inplace; do
  for file in zeros spread short; do head -c 12000000 /dev/urandom > "s/$file"; done
  cp_ 0 '^3 files' -S $way zeros spread short s/
  for file in zeros spread short; do cmp "$file" "s/$file" || fail "-S $way leaves what was in $file"; done
done
[ $holes = no ] || [ "$(blocks s/spread)" -lt 1000 ] || fail "-S --inplace fills $(blocks s/spread) KiB"
cp_ 0 '^1 files' -S - s/stream < spread
cmp spread s/stream || fail "-S makes another file of standard input"
head -c 1000000 spread | cat - zeros > tail
cp_ 0 '^1 files' -S - s/stream < tail
cmp tail s/stream || fail "-S loses zeros at the end of standard input"

# A missing source is reported by its own name, and the target is not touched.
printf 'there before' > there
cp_ 23 'nope: No such file' nope there
[ "$(cat there)" = 'there before' ] || fail "a source that is not there replaces the target"
mkdir -p box
serve cordma-cpd --listen 127.0.0.1:0 --module "box=$work/box" --transport tcp
cp_ 23 'box/nope: No such file' --port "${address##*:}" 127.0.0.1:box/nope there
[ "$(cat there)" = 'there before' ] || fail "a source that is not there replaces the target"

# Rates with fractions, in rsync's syntax.
for rate in 1.5m 0.5M 100.5 2M 1000; do cp_ 0 '^1 files' --bwlimit "$rate" there "at $rate"; done
for rate in 1.5.2 . m 1.5q -1 1e3; do cp_ 1 'bwlimit' --bwlimit="$rate" there never; done

# Without -p, the default ACL of a directory determines the modes of files created in it.
mkdir acl
if setfacl -d -m g::---,o::--- acl 2> /dev/null; then
  mkdir tree
  printf small > tree/small
  fill tree/middle 1000000
  fill tree/large 9000000
  chmod 644 tree/*
  for way in '' --inplace; do
    cp_ 0 '^3 files' -r $way tree/ "acl/in$way/"
    cp_ 0 '^1 files' $way tree/small "acl/small$way"
    for file in "acl/in$way"/* "acl/small$way"; do
      [ "$(stat -c %a "$file")" = 600 ] || fail "$way $file has mode $(stat -c %a "$file")"
    done
  done
  # Existing files keep their modes.
  chmod 640 acl/in/*
  cp_ 0 '^3 files' -rI tree/ acl/in/
  cp_ 0 '^0 files' -rt --size-only tree/ acl/in/
  [ "$(stat -c %a acl/in/* | sort -u)" = 640 ] || fail "what was there has another mode: $(stat -c '%a %n' acl/in/*)"
  cp_ 0 '^0 files' -rtp tree/ acl/in/
  [ "$(stat -c %a acl/in/* | sort -u)" = 644 ] || fail "-p does not keep modes: $(stat -c '%a %n' acl/in/*)"
else
  echo "not checked: default ACLs, as there is no setfacl (package acl), or the file system of $work has none"
fi

# Part files and sidecars of other transfers. If a filter protects one of the pair, the other stays
# as well. A part that another process is writing stays.
mkdir left left.d
fill left/f 1000
cp_ 0 '^1 files' -rt left/ left.d/
for name in .f.cordma-part .f.cordma-state .g.cordma-part; do echo theirs > left.d/$name; done
exec {held}< left.d/.g.cordma-part
flock "$held"
cp_ 0 '^0 files' -rt --delete --exclude '*.cordma-part' left/ left.d/
[ "$(ls -A left.d | tr '\n' ' ')" = '.f.cordma-part .f.cordma-state .g.cordma-part f ' ] || fail "spared: $(ls -A left.d)"
cp_ 0 '^0 files' -rt --delete left/ left.d/
[ "$(ls -A left.d | tr '\n' ' ')" = '.g.cordma-part f ' ] || fail "being written: $(ls -A left.d)"
exec {held}<&-
cp_ 0 '^0 files.* 1 deleted' -rt --delete left/ left.d/

if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2> /dev/null; then
  echo "not checked: other file systems and users, which only root has"
  exit 0
fi

# File systems that do not report their free space, that lack holes, or that reserve space for root.
mkdir unlimited ram ext
fill large 9000000
cat > mounted.sh <<SCRIPT
set -e
programs=$programs
copy() { timeout 60 "\$programs/cordma-cp" -q "\$@"; }
mount -t tmpfs -o size=0 tmpfs unlimited
mount -t ramfs ramfs ram
for at in unlimited ram; do
  copy large \$at/
  cmp large \$at/large
done
mkdir unlimited/small
mount -t tmpfs -o size=4m tmpfs unlimited/small
# There is no space for FILE: the existing file stays, and nothing is left that the next run would
# skip.
has_no_room() {  # has_no_room FILE
  echo old > unlimited/small/\$1
  code=0
  copy --inplace \$1 unlimited/small/\$1 2> said || code=\$?
  [ \$code -eq 23 ]
  grep -q 'No space left' said
  [ "\$(cat unlimited/small/\$1)" = old ]
  rm unlimited/small/\$1
  code=0
  copy -u --inplace \$1 unlimited/small/\$1 2> said || code=\$?
  [ \$code -eq 23 ]
  [ ! -e unlimited/small/\$1 ]
}
has_no_room large
# The same for a short file.
head -c 2000000 large > short
head -c 3000000 large > unlimited/small/other
has_no_room short
umount unlimited/small
# There is space for the file, but not for the mark of an incomplete file.
mount -t tmpfs -o size=9m tmpfs unlimited/small
head -c 9437184 /dev/zero | tr '\\0' x > exact
has_no_room exact
umount unlimited/small
# Another object in the way also stays, with its contents.
mount -t tmpfs -o size=4m tmpfs unlimited/small
mkdir -p way unlimited/small/kept/in
cp large way/kept
cp large way/led
ln -s nowhere unlimited/small/led
code=0
copy -rt --delete --inplace way/ unlimited/small/ 2> said || code=\$?
[ \$code -eq 23 ]
[ -d unlimited/small/kept/in ]
[ "\$(readlink unlimited/small/led)" = nowhere ]
# Several concurrent files do not count on the same free space.
rm -r unlimited/small/*
mkdir four
for i in 1 2 3 4; do
  head -c 1800000 /dev/urandom > four/\$i
  echo old > unlimited/small/\$i
done
code=0
copy -rt --inplace four/ unlimited/small/ 2> said || code=\$?
[ \$code -eq 23 ]
for i in 1 2 3 4; do
  [ "\$(head -c 100 unlimited/small/\$i | tr -d '\\0')" = old ] || cmp four/\$i unlimited/small/\$i
done
umount unlimited/small
# A sparse new file of which only a part fits is marked as incomplete until it is complete.
mount -t tmpfs -o size=200k tmpfs unlimited/small
head -c 100000 /dev/urandom > less
touch -d 2020-01-01 less
for again in -u --size-only --ignore-existing; do
  rm -f unlimited/small/less
  head -c 150000 large > unlimited/small/other
  code=0
  copy -t --inplace -S less unlimited/small/less 2> said || code=\$?
  [ \$code -eq 23 ]
  grep -q 'No space left' said
  rm unlimited/small/other
  copy -t --inplace \$again less unlimited/small/less
  cmp less unlimited/small/less
done
umount unlimited/small
# Over a longer file with a hole at the position of the mark.
mount -t tmpfs -o size=64k tmpfs unlimited/small
head -c 20480 less > old
truncate -s 40960 old
head -c 20470 large > shorter
cp --sparse=always old unlimited/small/old
head -c 100000 large > unlimited/small/other || true
code=0
copy -t --inplace -S shorter unlimited/small/old 2> said || code=\$?
[ \$code -eq 23 ]
cmp old unlimited/small/old
umount unlimited/small
# Over a longer file, without any free space.
mount -t tmpfs -o size=64k tmpfs unlimited/small
head -c 45056 less > old
cp old unlimited/small/old
head -c 100000 large > unlimited/small/other || true
copy -t --inplace shorter unlimited/small/old
cmp shorter unlimited/small/old
umount unlimited/small
rmdir unlimited/small
# Sources with holes, to a file system without holes: a new file, a shorter old file and a longer
# one.
copy --inplace hollow large ram/new/
cmp hollow ram/new/hollow
for bytes in 100000 2000000; do
  head -c \$bytes /dev/urandom > ram/old
  copy --inplace hollow ram/old
  cmp hollow ram/old
  head -c \$bytes /dev/urandom > ram/old
  copy --inplace -S zeros ram/old
  cmp zeros ram/old
done
# A listed file below a listed directory, on another file system: -x excludes it, and this is
# reported.
mkdir -p over/a/mnt
mount -t tmpfs tmpfs over/a/mnt
echo below > over/a/mnt/f
printf 'a\\na/mnt/f\\n' > list
code=0
copy -arx --files-from list over over.out/ 2> said || code=\$?
[ \$code -eq 23 ]
grep -q 'a/mnt/f: is on another file system than a' said
copy -ar --files-from list over over.out/
grep -q below over.out/a/mnt/f
umount over/a/mnt
truncate -s 40M image
if mkfs.ext4 -q -m 50 image && mount -o loop image ext 2> /dev/null; then
  head -c 25000000 /dev/urandom > more
  copy more ext/
  cmp more ext/more
  if copy more ext/again 2> said; then false; fi
  grep -q 'No space left on device' said
  # The same with --inplace: the existing file stays unchanged, and no space is allocated behind its
  # end.
  echo old > ext/old
  chmod 644 ext/old
  chmod 600 more
  left=\$(df --output=avail ext | tail -n 1)
  code=0
  copy -p --inplace more ext/old 2> said || code=\$?
  [ \$code -eq 23 ]
  grep -q 'No space left on device' said
  [ "\$(cat ext/old)" = old ]
  [ "\$(df --output=avail ext | tail -n 1)" -eq "\$left" ]
  [ "\$(stat -c %a ext/old)" = 644 ]
else
  echo "not checked: room that is root's, as nothing can be mounted from a file" >&3
fi
SCRIPT
unshare -m bash -x mounted.sh 3>&1 > mounted.log 2>&1 || fail "on other file systems: $(cat mounted.log)"

# A user other than root: -a keeps owners and groups as far as permitted, and reports the rest in
# one line without failing. Explicit -o or -g fails.
command -v setpriv > /dev/null || exit 0
mkdir theirs
chown 65534:65534 theirs
chmod -R go+rX tree
under=(setpriv --reuid 65534 --regid 65534 --clear-groups)
cp_ 0 'left out: .: the owner or group of 4 entries' -a tree/ theirs/a/
[ "$(grep -c '^cordma-cp: ' output)" = 1 ] || fail "-a says more than a line: $(cat output)"
cp_ 0 '^0 files' -ai tree/ theirs/a/
[ "$(grep -Evc '^cordma-cp: |^over |^0 files' output)" = 0 ] || fail "what cannot be kept is told as a difference: $(cat output)"
cp_ 23 'small: owner: Operation not permitted' -ao tree/ theirs/o/
cp_ 23 'small: group: Operation not permitted' -ag tree/ theirs/g/
# --inplace writes to a file that the user owns and that has no write permission.
cp_ 0 '^1 files' --inplace tree/small theirs/closed
chmod 444 theirs/closed
cp_ 0 '^1 files' --inplace tree/middle theirs/closed
cmp tree/middle theirs/closed
[ "$(stat -c %a theirs/closed)" = 444 ] || fail "a file that was closed is open: $(stat -c %a theirs/closed)"
# The source file itself, as the target, is not touched.
ln theirs/closed theirs/itself
cp_ 23 'it is the source itself' -I --inplace theirs/closed theirs/itself
cmp tree/middle theirs/closed
# The same for additional hard links of the source, during and after the comparison under the first
# name.
mkdir theirs/names theirs/linked
for name in x y; do ln theirs/closed theirs/names/$name; ln theirs/closed theirs/linked/$name; done
for again in 1 2 3; do
  cp_ 23 'it is the source itself' -r -I --inplace theirs/names/ theirs/linked/
  cmp tree/middle theirs/closed
done
# A file that was cut off stays readable for its owner, so that the next run recognizes it. A
# complete file has its own mode again.
for again in -u --ignore-existing; do
  rm -f theirs/cut
  echo old > theirs/cut
  touch -d 2001-01-01 theirs/cut
  chown 65534 theirs/cut
  chmod 200 theirs/cut
  code=0
  "${under[@]}" timeout -s KILL 2 "$programs/cordma-cp" -t --inplace --chunk 64k --bwlimit 100k tree/middle theirs/cut || code=$?
  [ $code -eq 137 ] || fail "it was not killed, but ended with $code"
  [ "$(stat -c %a theirs/cut)" = 600 ] || fail "what was cut off has mode $(stat -c %a theirs/cut)"
  cp_ 0 '^1 files' -t $again tree/middle theirs/cut
  cmp tree/middle theirs/cut
done
under=()
