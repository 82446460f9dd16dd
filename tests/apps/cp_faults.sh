# What goes wrong with one file is told by its name, and nothing else is lost for it.
transport=$2
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp --transport "$transport" "${@:3}"; }

mkdir "$work/tree"
for i in $(seq 50); do printf '%s' "$i" > "$work/tree/small $i"; done
fill "$work/tree/large" 20000000

# A wrong bit on the way: seen, and sent again; where it is wrong again and again, the file is not there.
cp_ 0 'damaged on the way, and sent again' -a --flip 7 "$work/tree/" "$work/flipped/"
diff -r "$work/tree" "$work/flipped" || fail "a wrong bit came through"
mkdir "$work/few"
fill "$work/few/large" 1000000
cp_ 23 'large: it came damaged again and again' -a --flip 1 --chunk 64k "$work/few/" "$work/wrong/"
[ ! -e "$work/wrong/large" ] || fail "a damaged file has its name"

# A file that changes, grows or vanishes meanwhile.
change() {  # change CODE REGEX COMMAND: while `large` goes slowly, before the rest has begun
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

# What may not be read, and where nothing may be written.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
  mkdir "$work/theirs"
  chmod 711 "$work"
  chown 65534 "$work/theirs"
  chmod 600 "$work/tree/small 1"
  under=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  cp_ 23 'small 1: Permission denied' -rt "$work/tree/" "$work/theirs/in/"
  [ "$(find "$work/theirs/in" -type f | wc -l)" -eq 50 ] || fail "a file that may not be read costs others"
fi
