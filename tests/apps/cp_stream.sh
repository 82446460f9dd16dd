# Standard input and output, and comparison by contents (-c).
transport=$2
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp --transport "$transport" "${@:3}"; }
copy() { timeout 60 "$programs/cordma-cp" --transport "$transport" -q "$@"; }

mkdir "$work/module"
serve cordma-cpd --listen 127.0.0.1:0 --transport "$transport" --module-rw "m=$work/module"
port=${address##*:}
[ "$(sed -n 's/^FDSize:[[:space:]]*//p' "/proc/$server/status")" -ge 1024 ] || fail "its table of descriptors has yet to grow"
there() { printf '127.0.0.1:m/%s' "$1"; }

# Streams of any length, to a daemon and locally; only a part of the input is available at the
# start.
for bytes in 0 1 65536 524288 524289 20000001; do
  head -c $bytes /dev/urandom > "$work/file"
  (head -c 300; sleep 0.05; cat) < "$work/file" | copy --port "$port" - "$(there pushed)"
  cmp "$work/file" "$work/module/pushed" || fail "$bytes bytes of standard input, there"
  copy --port "$port" "$(there pushed)" - | cmp - "$work/file" || fail "$bytes bytes to standard output, from there"
  copy - "$work/here" < "$work/file"
  cmp "$work/file" "$work/here" || fail "$bytes bytes of standard input, here"
  copy "$work/file" - | cmp - "$work/file" || fail "$bytes bytes to standard output, from here"
  copy - - < "$work/file" | cmp - "$work/file" || fail "$bytes bytes from standard input to standard output"
done
# Output into a file starts at the file offset, after earlier output; holes are written as zeros.
{ printf 'before '; copy "$work/here" -; printf ' behind'; } > "$work/around"
{ printf 'before '; cat "$work/here"; printf ' behind'; } | cmp - "$work/around" || fail "standard output is a file"
truncate -s 30000000 "$work/holes"
printf x | dd of="$work/holes" bs=1 seek=12345678 conv=notrunc 2> /dev/null
copy --port "$port" "$work/holes" "$(there holes)"
copy --port "$port" "$(there holes)" - | cmp - "$work/holes" || fail "holes to standard output"
# A new file has the mode of the umask, and a replaced file keeps its mode. The replaced file is a
# new inode, so other hard links keep the old contents.
ln "$work/module/pushed" "$work/module/other"
chmod 600 "$work/module/pushed"
(umask 027; copy - "$work/module/fresh" < "$work/here"; copy - "$work/module/pushed" < "$work/here")
[ "$(stat -c %a "$work/module/fresh")" = 640 ] || fail "the mode of what came from standard input"
[ "$(stat -c %a "$work/module/pushed")" = 600 ] || fail "standard input has opened what was closed"
[ "$(stat -c %h "$work/module/other")" = 1 ] || fail "standard input was written into a file that is there"
# Messages go to standard error.
"$programs/cordma-cp" -v --stats "$work/here" - 2> "$work/said" | cmp - "$work/here" || fail "more than the file"
grep -q '1 files' "$work/said" || fail "no summary: $(cat "$work/said")"

cp_ 1 'only source' - "$work/file" "$work/module"
cp_ 1 'only one file' "$work/file" "$work/here" -
cp_ 1 'delete is for trees' -r --delete - "$work/x"
cp_ 1 'cannot both' --json - "$work/file" -
mkdir "$work/tree"
cp_ 23 'tree: only one file can go to standard output' -r "$work/tree" -
mkdir "$work/module/tree"
cp_ 23 'tree: only one file can go to standard output' -r --port "$port" "$(there tree)" -
code=0
copy "$work/holes" - > /dev/full 2> "$work/said" || code=$?
[ $code -eq 23 ] && grep -q 'No space' "$work/said" || fail "a full standard output: $code, $(cat "$work/said")"
# Endless input ends only when the disk is full.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  mkdir "$work/small"
  timeout 60 unshare -m bash -c 'mount -t tmpfs -o size=4M none "$1" && "$2" --transport "$3" - "$1/x" < /dev/zero' \
    _ "$work/small" "$programs/cordma-cp" "$transport" > "$work/said" 2>&1 && fail "an endless file fits"
  grep -q 'x: No space left' "$work/said" || fail "a full disk: $(cat "$work/said")"
else
  echo "not tried: a full disk, which root alone can make"
fi
# Ctrl-C while no input arrives.
code=0
timeout --foreground -s INT 1 "$programs/cordma-cp" --transport "$transport" - "$work/x" < <(sleep 5) || code=$?
[ $code -eq 124 ] || [ $code -eq 20 ] || fail "Ctrl-C while nothing comes: $code"

# With -c, contents are compared, not times; a file with the same contents is given its time and
# nothing else.
for i in 1 2 3 4; do head -c 100000 /dev/urandom > "$work/tree/$i"; done
head -c 20000000 /dev/urandom > "$work/tree/large"
: > "$work/tree/empty"
copy -a --port "$port" "$work/tree/" "$(there tree/)"
change() {  # change FILE OFFSET LIKE: changes the byte at OFFSET and sets the time of LIKE
  local byte=X
  ! cmp -s -n 1 -i "$2:0" "$1" <(printf X) || byte=Y
  printf $byte | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
  touch -r "$3" "$1"
}
change "$work/module/tree/2" 99999 "$work/tree/2"
change "$work/module/tree/large" 15000000 "$work/tree/large"
touch "$work/module/tree/3"
same=$(stat -c %i "$work/module/tree/3")
# File 3 differs in time.
cp_ 0 '1 files, 100 kB.* 5 the same' -a -n --port "$port" "$work/tree/" "$(there tree/)"
cp_ 0 '2 files, 20.1 MB.* 4 the same' -ac --port "$port" "$work/tree/" "$(there tree/)"
[ -z "$(rsync -anic "$work/tree/" "$work/module/tree/")" ] || fail "-c left a difference"
[ "$(stat -c %i "$work/module/tree/3")" = "$same" ] || fail "-c wrote what was the same"
cp_ 0 '^.*0 files.* 6 the same' -acn --port "$port" "$work/tree/" "$(there tree/)"
change "$work/tree/1" 5 "$work/module/tree/1"
cp_ 0 '6 the same' -a --port "$port" "$work/tree/" "$(there tree/)"
cp_ 0 'updated  1$' -acnv --port "$port" "$work/tree/" "$(there tree/)"
cp_ 0 '1 files' -ac --port "$port" "$(there tree/)" "$work/tree/"
