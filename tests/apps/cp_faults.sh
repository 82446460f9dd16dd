# An error with one file is reported with the name of that file, and no other file is lost.
transport=$2
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp --transport "$transport" "${@:3}"; }

mkdir "$work/tree"
for i in $(seq 50); do printf '%s' "$i" > "$work/tree/small $i"; done
fill "$work/tree/large" 20000000

# A bit is flipped on the way: the error is detected and the chunk is sent again. If every attempt
# is damaged, the file is not created.
cp_ 0 'damaged on the way, and sent again' -a --flip 7 "$work/tree/" "$work/flipped/"
diff -r "$work/tree" "$work/flipped" || fail "a wrong bit came through"
mkdir "$work/few"
fill "$work/few/large" 1000000
cp_ 23 'large: it came damaged again and again' -a --flip 1 --chunk 64k "$work/few/" "$work/wrong/"
[ ! -e "$work/wrong/large" ] || fail "a damaged file has its name"

# A file that changes, grows or vanishes during the transfer.
change() {  # change CODE REGEX COMMAND: COMMAND runs during the slow copy of `large`
  local code=0
  rm -rf "$work/target"
  "$programs/cordma-cp" -a --transport "$transport" --bwlimit 20M "$work/tree/" "$work/target/" > "$work/output" 2>&1 &
  local run=$!
  until [ -e "$work/target/.large.cordma-part" ]; do
    kill -0 "$run" 2> /dev/null || fail "$3: it ended before it had begun: $(cat "$work/output")"
    sleep 0.01
  done
  eval "$3"
  wait "$run" || code=$?
  [ "$code" -eq "$1" ] || fail "$3: ended with $code, not $1: $(cat "$work/output")"
  grep -Eq "$2" "$work/output" || fail "$3: nothing like $2: $(cat "$work/output")"
  [ "$(find "$work/target" -name 'small*' | wc -l)" -ge 49 ] || fail "$3: the rest is not there"
}
change 23 'large: it changed while it was read' 'printf more >> "$work/tree/large"'
[ ! -e "$work/target/large" ] || fail "a file that changed has its name"
change 23 'large: it changed while it was read' 'truncate -s 1000000 "$work/tree/large"'
fill "$work/tree/large" 20000000
change 24 'small 9: ' 'rm "$work/tree/small 9"'
printf 9 > "$work/tree/small 9"

# A full disk.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  mkdir "$work/full"
  cat > "$work/full.sh" <<SCRIPT
mount -t tmpfs -o size=8m tmpfs "$work/full"
"$programs/cordma-cp" -a --transport $transport "$work/tree/" "$work/full/in/" > "$work/output" 2>&1
echo \$? > "$work/code"
diff -r -x large "$work/tree" "$work/full/in" && [ ! -e "$work/full/in/large" ]
SCRIPT
  unshare -m bash "$work/full.sh" || fail "a full disk costs more than the file it has no room for: $(cat "$work/output")"
  [ "$(cat "$work/code")" = 23 ] || fail "a full disk ends with $(cat "$work/code"): $(cat "$work/output")"
  grep -q 'large: No space left on device' "$work/output" || fail "a full disk is not named: $(cat "$work/output")"
fi

# A read-only target, and attributes that exceed a frame.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  mkdir -p "$work/mounted" "$work/rosource"
  printf 1 > "$work/rosource/1"
  cat > "$work/mounted.sh" <<SCRIPT
set -e
programs=$programs work=$work
run() { code=0; timeout 60 "$programs/cordma-cp" --transport $transport "\$@" > "$work/output" 2>&1 || code=\$?; cat "$work/output"; }
mount -t tmpfs tmpfs "$work/mounted"
cd "$work/mounted"
mkdir many
printf x > many/large; printf x > many/count; printf x > many/none
if setfattr -n user.probe -v x many/none; then
  python3 -c '
import os
for i in range(30): os.setxattr("many/large", "user.a%d" % i, os.urandom(60000))
for i in range(257): os.setxattr("many/count", "user.a%d" % i, b"1")'
  run -aX many/ there/
  [ \$code = 23 ]
  [ -e there/large ]
  [ -e there/count ]
  [ -e there/none ]
  grep -q 'large: extended attributes: more than can be sent' "$work/output"
  grep -q 'count: extended attributes: more than can be sent' "$work/output"
else
  echo "not checked: too many attributes, as tmpfs has none here" >&3
fi
mkdir old
mount -o remount,ro "$work/mounted"
run -a "$work/rosource/" old/
[ \$code = 23 ]
grep -q '1: Read-only file system' "$work/output"
run -a "$work/rosource/" new/
[ \$code = 11 ]
grep -q 'new.*: Read-only file system' "$work/output"
SCRIPT
  unshare -m bash "$work/mounted.sh" 3>&1 > "$work/mounted.log" 2>&1 || fail "read-only, or too many attributes: $(cat "$work/mounted.log")"
else
  echo "a target that is read-only is not tested: only root may mount one"
fi

# A target that is a file, and a directory with the name of a file to copy.
printf 'a file' > "$work/occupied"
cp_ 3 'occupied.*Not a directory' -a "$work/tree/" "$work/occupied/"
cp_ 3 'occupied.*Not a directory' -a "$work/tree/" "$work/occupied"
mkdir -p "$work/occupying/small 1/kept"
cp_ 23 'small 1: Is a directory' -a "$work/tree/" "$work/occupying/"
[ "$(find "$work/occupying" -type f | wc -l)" -eq 50 ] || fail "a directory in the place of a file costs others"
[ "$(cat "$work/occupied")" = 'a file' ] || fail "a file was written to"

# Existing files with the names of part files, and paths that are too long. Both are reported, and
# no other file is affected.
mkdir "$work/odd"
printf x > "$work/odd/X"
head -c 9000000 /dev/zero > "$work/odd/Y"
printf p > "$work/odd/.X.cordma-part"
printf s > "$work/odd/.X.cordma-state"
printf p > "$work/odd/.Y.cordma-part"
mkdir "$work/odd/.Z.cordma-part"
cp_ 23 '^cordma-cp: \.X\.cordma-part: ' -a "$work/odd/" "$work/even/"
for name in .X.cordma-state .Y.cordma-part .Z.cordma-part; do
  grep -q "^cordma-cp: $name: " "$work/output" || fail "$name was not named"
done
[ "$(ls -A "$work/even")" = $'X\nY' ] || fail "other files than those that may be: $(ls -A "$work/even")"
cmp "$work/odd/Y" "$work/even/Y"
python3 - "$work/long" <<'PYTHON'
import os, sys
os.makedirs(sys.argv[1] + "/short")
open(sys.argv[1] + "/short/file", "w").close()
at = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(200):  # 51,000 bytes of path
    os.mkdir("d" * 255, dir_fd=at)
    at, above = os.open("d" * 255, os.O_RDONLY, dir_fd=at), at
    os.close(above)
    os.close(os.open("f" * 255, os.O_WRONLY | os.O_CREAT, dir_fd=at))
PYTHON
cp_ 23 'd{255}: File name too long$' -a "$work/long/" "$work/short/"
[ "$(find "$work/short" -name 'ff*' | wc -l)" -eq 15 ] || fail "files with paths that are short enough are missing"
[ -e "$work/short/short/file" ] || fail "a path that is too long costs others"

# A source without read permission, and a target without write permission.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  mkdir "$work/theirs"
  chmod 711 "$work"
  chown 65534 "$work/theirs"
  chmod 600 "$work/tree/small 1"
  under=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  cp_ 23 'small 1: Permission denied' -rt "$work/tree/" "$work/theirs/in/"
  [ "$(find "$work/theirs/in" -type f | wc -l)" -eq 50 ] || fail "a file that may not be read costs others"
fi
