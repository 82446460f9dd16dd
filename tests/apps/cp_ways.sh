# Behaviour that users of rsync and scp rely on, and failures that must not happen with any usage.
transport=$2
source "$(dirname "$0")/expect.sh"
cp_() { expect "$1" "$2" cordma-cp --transport "$transport" "${@:3}"; }
cd "$work"

# A partial transfer of one file is not continued with another file of the same size and time.
head -c 24M /dev/urandom > a
head -c 24M /dev/urandom > b
touch -d 2020-01-01 a b
mkdir t
"$programs/cordma-cp" --transport "$transport" -t --bwlimit 20M a t/image > said 2>&1 &
begun=$!
until [ -s t/.image.cordma-state ]; do
  kill -0 $begun 2> /dev/null || fail "it is over before it has begun: $(cat said)"
  sleep 0.02
done
# Background jobs of a shell ignore Ctrl-C.
kill -KILL $begun
wait $begun 2> /dev/null || true
cp_ 0 '^1 files' -t b t/image
cmp b t/image || fail "one file is of two sources"

# Names that look like lists, and options that users of rsync type.
echo bracket > '[a,b]'
echo plain > a,b
mkdir -p backup '[backup]' source/d
echo precious > backup/precious
echo q > source/q
cp_ 0 '^1 files' '[a,b]' out
[ "$(cat out)" = bracket ] || fail "a name in brackets is another"
cp_ 0 '^1 files' -a --delete source/ '[backup]'
[ -e backup/precious ] && [ -e '[backup]/q' ] || fail "a directory in brackets is another"
cp_ 0 '^1 files' -avhP source/ human/
[ -e human/q ] || fail "-h"

# Permissions without -p: a new file has the source's mode less the umask; an existing file keeps
# its mode.
mkdir -m 700 source/private
echo x > source/open
chmod 644 source/open
mkdir to
echo old > to/open
chmod 600 to/open
(umask 022; cp_ 0 'files' -r source/ to/)
(umask 022; mkdir -m 700 private; echo x > private/x; cp_ 0 '1 files' -r private/ fresh.t/)
[ "$(stat -c %a fresh.t)" = 700 ] || fail "a new target of what is private has the mode $(stat -c %a fresh.t)"
[ "$(stat -c %a to/private)" = 700 ] || fail "a private directory is open: $(stat -c %a to/private)"
[ "$(stat -c %a to/open)" = 600 ] || fail "a private file is open: $(stat -c %a to/open)"

# Times of symlinks are updated even if their targets are already the same.
mkdir links linked
ln -s somewhere links/l
touch -h -d 2001-01-01 links/l
ln -s somewhere linked/l
cp_ 0 'files' -a links/ linked/
[ -z "$(rsync -anic --delete links/ linked/)" ] || fail "a symlink's time is lost"

# --delete: an entry that is also in the source but is not sent stays. Metadata that cannot be kept
# does not prevent deletions.
mkfifo source/pipe
ln -s q source/link
mkdir del
mkfifo del/pipe
ln -s q del/link
echo x > del/other
cp_ 0 '1 deleted' -r --delete source/ del/
[ -p del/pipe ] && [ -L del/link ] || fail "what is left out is deleted"

if [ "$(id -u)" -eq 0 ]; then
  as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  chmod 755 "$work"
  mkdir theirs mine
  echo 1 > theirs/1
  echo other > mine/other
  chown 65534:65534 mine
  under=("${as_nobody[@]}")
  cp_ 23 '1 deleted' -ao --delete theirs/ mine/
  [ ! -e mine/other ] || fail "nothing is deleted as an owner could not be kept"
  # A hard link of an unreadable file is not linked to the existing file of the first name.
  mkdir names named
  echo one > names/a
  ln names/a names/b
  chmod 000 names/a
  echo olda > named/a
  echo oldb > named/b
  chown -R 65534:65534 named
  cp_ 23 'a: Permission denied' -rtH names/ named/
  [ "$(cat named/b)" = oldb ] || fail "a hard link to what failed"
  under=()
else
  echo "not tried: what others own, which root alone can make"
fi

# With standard input or output closed, no descriptor of the program is used in its place.
cp_ 23 'stdin: Bad file descriptor|x: Bad file descriptor' - "$work/x" <&-
[ ! -e x ] || fail "what is no standard input was copied"
printf 'abc' > three
"$programs/cordma-cp" -q three - >&- 2> said && fail "there is no standard output"
grep -q 'Bad file descriptor' said || fail "no standard output: $(cat said)"

# Ctrl-C while small files are written.
mkdir many
for d in $(seq 20); do
  mkdir many/$d
  (cd many/$d && seq 8000 | split -l 40 -)
done
for after in 0.05 0.1 0.15 0.2; do
  code=0
  timeout --foreground -s INT $after "$programs/cordma-cp" --transport "$transport" -q -rc many/ "cut/$after/" 2> said || code=$?
  [ $code -eq 124 ] || [ $code -eq 0 ] || fail "Ctrl-C after $after s: $code, $(cat said)"
  grep -q REQUIRE said && fail "$(cat said)"
  find cut -name '*.cordma-part' | grep -q . && fail "something is left over"
done
cp_ 0 'files' -a many/ cut/all/
diff -r many cut/all || fail "it does not go on"
# Ctrl-C while no input arrives or no output is accepted.
mkfifo quiet
sleep 30 > quiet &
background+=($!)
code=0
timeout --foreground -s INT 0.5 "$programs/cordma-cp" --transport "$transport" - "$work/z" < quiet 2> said || code=$?
[ $code -eq 124 ] || fail "Ctrl-C while nothing comes: $code"
[ ! -e .z.cordma-part ] || fail "something is left over"

# --timeout: a transfer ends if either side stays connected and sends nothing; a slow side does not
# end it.
mkdir box
fill large 30000000
head -c 150000 large > slow
host=${RDMA_HOST_SELF:-127.0.0.1}
serve cordma-cpd --listen "$host:0" --module-rw "box=$work/box" --transport "$transport"
port=${address##*:}
cp_ 0 '^1 files' --port "$port" --timeout 1 --chunk 64k --bwlimit 64k slow "$host:box/"
begin() {  # begin NAME: waits until a part of it exists; sets `begun`
  "$programs/cordma-cp" --transport "$transport" --port "$port" --timeout 1 --reconnect off --bwlimit 5M large "$host:box/$1" > said 2>&1 &
  begun=$!
  background+=("$begun")
  until [ -s "box/.$1.cordma-part" ]; do
    kill -0 $begun 2> /dev/null || fail "it is over before it has begun: $(cat said)"
    sleep 0.02
  done
}
begin silent
kill -STOP $begun
for _ in $(seq 500); do grep -q 'nothing was heard of the other side for 1 s' served && break; sleep 0.02; done
kill -KILL $begun
wait $begun 2> /dev/null || true
grep -q 'nothing was heard of the other side for 1 s' served || fail "a silent client is waited for: $(cat served)"
begin unheard
kill -STOP "$server"
code=0
wait $begun || code=$?
[ $code -eq 30 ] || fail "a silent daemon: $code, $(cat said)"
grep -q 'nothing was heard of the other side for 1 s' said || fail "a silent daemon: $(cat said)"
cp_ 30 'timed_out' --port "$port" --timeout 1 slow "$host:box/"
kill -CONT "$server"

# --delete compared with rsync. Excluded entries of a deleted directory stay, with the directories
# that lead to them. A directory is removed for a file or link of the same name unless some of it is
# excluded. (Without --delete rsync -H hangs.)
mkdir -p of/keep
echo 1 > of/a
echo 2 > of/file
ln -s a of/link
echo x > of/h1
ln of/h1 of/h2
grown() {  # grown DIRECTORY: creates the initial state
  rm -rf "$1"
  mkdir -p "$1"/{gone/sub/deep,gone/only,file/in,link/in,h2/in,.hide}
  touch "$1"/{gone/sub/x.o,gone/sub/x.c,gone/only/y.c,file/in/z.o,file/in/z.c,link/in/z.c,link/z,h2/in/z,.hide/q}
}
as_rsync() {  # as_rsync ARGUMENT...: both leave the same tree and exit code
  local code=0
  grown theirs.d
  grown ours.d
  timeout 60 rsync "$@" of/ theirs.d/ > said 2>&1 || code=$?
  cp_ $code '^(would copy )?[0-9]+ files' "$@" of/ ours.d/
  diff -r --no-dereference theirs.d ours.d > said || fail "$*: not as with rsync: $(cat said)"
}
for how in -aH -aHn '-aH --inplace'; do
  for rules in '' --exclude=*.o --exclude=/gone/sub --exclude=deep/ '--include=y.c --exclude=*.c' --exclude=/file/in; do
    as_rsync $how --delete $rules
  done
done
as_rsync -a
as_rsync -an
grep -q 'file: Is a directory, and not empty: --delete would replace it' output || fail "what is in the way is not named: $(cat output)"

# Directories without write permission for their owner, new, existing and to be deleted: the result
# is that of rsync, for each kind of metadata kept.
if [ "$(id -u)" -eq 0 ]; then
  mkdir -p closed/{shut/deep,open}
  echo 1 > closed/shut/new
  echo 1 > closed/shut/deep/new
  chmod 555 closed/shut closed/shut/deep
  chown -R 65534:65534 closed
  grown() {
    rm -rf "$1"
    mkdir -p "$1"/{shut/deep/gone/deep,away}
    touch "$1"/shut/{old,deep/old,deep/gone/deep/old} "$1"/away/{file,kept}
    chmod 555 "$1"/{shut/deep/gone/deep,shut/deep/gone,shut/deep,away}
    chmod 511 "$1"/shut
    chown -R 65534:65534 "$1"
  }
  in_all() { find "$1" -printf '%P %m\n' | sort; }
  for how in '-a' '-rt' '-a --delete' '-rt --delete' '-a --delete --exclude=kept'; do
    grown theirs.d
    grown ours.d
    "${as_nobody[@]}" rsync $how closed/ theirs.d/
    under=("${as_nobody[@]}")
    cp_ 0 '^2 files' $how closed/ ours.d/
    under=()
    # rsync leaves the remainder of a deleted directory writable.
    [ ! -e theirs.d/away ] || chmod 555 theirs.d/away
    diff <(in_all theirs.d) <(in_all ours.d) || fail "$how: not as with rsync"
    rm -rf theirs.d ours.d
    mkdir theirs.d ours.d
    chown 65534:65534 theirs.d ours.d
    "${as_nobody[@]}" rsync $how closed/ theirs.d/in/
    under=("${as_nobody[@]}")
    cp_ 0 '^2 files' $how closed/ ours.d/in/
    under=()
    diff <(in_all theirs.d) <(in_all ours.d) || fail "$how, where nothing is: not as with rsync"
  done
fi

# Errors reported by a daemon name paths as the client wrote them.
echo 1 > box/file
chmod 755 box
there() { cp_ "$1" "$2" --port "$port" "${@:3}"; }
for way in box/none box/none/ box/none/none; do
  there 23 "^cordma-cp: ${way%/}: No such file or directory\$" "$host:$way" out.d/
done
there 23 '^cordma-cp: box/file: Not a directory$' "$host:box/file/" out.d/
there 3 '^cordma-cp: box/file: Not a directory$' -r of/ "$host:box/file"
there 3 '^cordma-cp: box/file: Not a directory$' three "$host:box/file/"
there 3 '^cordma-cp: box/file/x: Not a directory$' three "$host:box/file/x"
there 0 'left out: box: is a directory' "$host:box" out.d/
ln -s /etc box/out
there 5 'box/out/x: leads out of the module$' "$host:box/out/x" out.d/
there 5 'box/out: leads out of the module$' -r of/ "$host:box/out"
if grep /proc/self served; then fail "the daemon logs a way of its own"; fi

# Local errors are not refusals: the exit codes are those of rsync.
ends_as_rsync() {
  local code=0
  timeout 60 "${under[@]}" rsync "$@" > said 2>&1 || code=$?
  cp_ $code "${said:-$1}" "$@"
}
for target in three three/ three/x; do
  said='^cordma-cp: three(/x)?: Not a directory$' ends_as_rsync -r of/ "$target"
  said='^cordma-cp: three(/x)?: Not a directory$' ends_as_rsync -r of "$target"
done
said='^cordma-cp: three: Not a directory' ends_as_rsync one three/
said='^cordma-cp: none: No such file' ends_as_rsync -r none there.d/
said='^cordma-cp: three/: Not a directory' ends_as_rsync -r three/ there.d/
if [ "$(id -u)" -eq 0 ]; then
  mkdir -m 755 nowrite
  mkdir -m 700 noread
  chmod 600 three
  under=("${as_nobody[@]}")
  said='^cordma-cp: nowrite/new: Permission denied$' ends_as_rsync -r of/ nowrite/new/
  said='^cordma-cp: of: Permission denied$' ends_as_rsync -r of nowrite/
  said='^cordma-cp: noread/new: Permission denied$' ends_as_rsync -r of/ noread/new/
  said='^cordma-cp: three: Permission denied$' ends_as_rsync three theirs.d/
  said='^cordma-cp: noread/: Permission denied$' ends_as_rsync -r noread/ theirs.d/
  under=()
fi

# -n and -v print each entry that differs only in metadata, if that metadata is to be kept, as rsync
# -i does.
mkdir -p meta/{same,mode,time,attribute}
touch meta/{file,moded,attributed}
ln -s x meta/link
ln -s x meta/timed.link
cp -a meta meta.d
rsync -aX meta/ meta.d/
chmod 711 meta.d/mode
chmod 600 meta.d/moded
touch -d 2001-01-01 meta.d/time
touch -h -d 2001-01-01 meta.d/timed.link
attributes=(metadata\ attribute{/,d})
setfattr -n user.x -v 1 meta/attribute meta/attributed 2> /dev/null || attributes=()
other() { grep '^metadata' output | sort || true; }
lines() { printf '%s\n' "$@" | sort; }
cp_ 0 'would copy 0 files' -rnX meta/ meta.d/
diff <(other) <([ ${#attributes[@]} -eq 0 ] || lines "${attributes[@]}") || fail "attributes alone"
cp_ 0 'would copy 0 files' -an meta/ meta.d/
diff <(other) <(lines metadata\ {mode/,moded,time/,timed.link}) || fail "without attributes"
[ -z "$(rsync -aniX meta/ meta.d/ | grep -v '^[.>][dLf].* \(mode/\|moded\|time/\|timed.link -> x\|attribute/\|attributed\)$')" ] || fail "rsync would do other things"
cp_ 0 '^0 files' -avX meta/ meta.d/
diff <(other) <(lines metadata\ {mode/,moded,time/,timed.link} "${attributes[@]}") || fail "all of it"
[ -z "$(rsync -aniX meta/ meta.d/)" ] || fail "metadata is lost"
cp_ 0 '^0 files' -avX meta/ meta.d/
[ -z "$(other)" ] || fail "nothing is other: $(other)"

# Other options that users of rsync type.
mkdir -p opt/{sub,fresh/deep}
for f in older newer sized same sub/old sub/extra fresh/new fresh/deep/new top.o; do echo "ours $f" > opt/$f; done
ln -s older opt/link
touch -d 2015-01-01 opt/{older,newer,sized,same,sub/old}
grown() {
  rm -rf "$1"
  mkdir -p "$1"/sub "$1"/gone/in
  for f in older newer sized sub/old sub/away gone/in/x gone/y; do echo "them $f" > "$1"/$f; done
  find "$1" -exec touch -d 2012-01-01 {} +
  cp -p opt/same "$1"/same
  ln -s elsewhere "$1"/link
  touch -h -d 2012-01-01 "$1"/link
  touch -d 2010-01-01 "$1"/{older,sized,sub/old}
  touch -d 2020-01-01 "$1"/newer
}
as_rsync_all() {  # as_rsync_all ARGUMENT...: compares contents, times and modes
  local code=0
  grown theirs.d
  grown ours.d
  timeout 60 rsync "$@" opt/ theirs.d/ > said 2>&1 < rules || code=$?
  cp_ $code '^(would copy )?[0-9]+ files' "$@" opt/ ours.d/ < rules
  [[ "$*" != *files-from* ]] || touch -r opt theirs.d ours.d  # neither list contains the root
  [ -z "$(rsync -anic --delete theirs.d/ ours.d/)" ] || fail "$*: not as with rsync: $(rsync -anic --delete theirs.d/ ours.d/)"
}
printf '%s\n' '# a comment' '' '; another' '*.o' '+ /sub/old' '- /sub/*' > rules
printf '%s\r\n' '# of another system' '*.o' '' '- /sub/*' > rules.dos
for how in -a '-a --delete'; do
  for option in -u --update --size-only --existing --ignore-existing '-u --existing' --exclude-from=rules --exclude-from=rules.dos --exclude-from=- '--include=*.o --exclude-from rules' '--include-from=rules --exclude=*'; do
    as_rsync_all $how $option
  done
done
cp_ 1 'none: No such file' --exclude-from none -r opt/ ours.d/
grown ours.d
cp_ 25 'deletions stopped due to --max-delete limit \([1-9][0-9]* skipped\)' -a --delete --max-delete 2 opt/ ours.d/
[ "$(cd ours.d; ls -d gone gone/in gone/in/x gone/y sub/away 2> /dev/null | wc -l)" -eq 3 ] || fail "--max-delete: $(find ours.d)"
cp_ 0 ', 3 deleted' -a --delete --max-delete 3 opt/ ours.d/
# As with rsync, a negative limit has the effect of 0.
grown ours.d
for limit in -1 -1000000; do cp_ 25 'limit \([1-9] skipped\)' -a --delete --max-delete=$limit opt/ ours.d/; done
[ "$(cd ours.d; ls -d gone gone/in gone/in/x gone/y sub/away | wc -l)" -eq 5 ] || fail "--max-delete below 0: $(find ours.d)"
# Hard links of one file: names that are skipped at the target may belong to another file. The next
# name receives the contents.
for option in -u --ignore-existing --existing '-c -u' '-u --existing'; do
  rm -rf names names.ours names.theirs
  mkdir names names.ours names.theirs
  echo source > names/a; ln -s to names/l
  for f in b c d; do ln names/a names/$f; done
  ln names/l names/m
  touch -d 2020-01-01 names/a
  for d in names.ours names.theirs; do
    echo other > $d/a; touch -d 2021-01-01 $d/a
    ln -s elsewhere $d/l
    echo SOURCE > $d/c; touch -d 2019-01-01 $d/c
    [[ $option != *existing ]] || rm $d/[al]
  done
  rsync -aH $option names/ names.theirs/
  cp_ 0 '^[0-9]+ files' -aH $option names/ names.ours/
  [ -z "$(rsync -anicH --delete names.theirs/ names.ours/)" ] || fail "-H $option: not as with rsync: $(ls -li names.theirs names.ours)"
done
# An additional hard link is as new as its first name: a newer entry at the target stays, of any
# kind.
rm -rf names names.ours
mkdir names names.ours
echo old > names/a; touch -d 2020-01-01 names/a; ln names/a names/b; ln names/a names/c
echo newer > names.ours/b; echo older > names.ours/c; touch -d 2019-01-01 names.ours/c
cp_ 0 '1 files' -aHu names/ names.ours/
[ "$(cat names.ours/[abc] | tr '\n' ' ')" = 'old newer old ' ] || fail "-H -u: $(tail -n +1 names.ours/*)"
# If the first name cannot be created, the next one receives the contents.
mkdir -p kept kept.t/a/in/the/way
echo x > kept/a; ln kept/a kept/b; ln kept/a kept/c
cp_ 23 'a: Is a directory, and not empty' -aH kept/ kept.t/
[ "$(cat kept.t/b)" = x ] && [ kept.t/b -ef kept.t/c ] && [ -d kept.t/a/in/the/way ] || fail "-H: $(find kept.t)"
rm kept/[ac]; echo y > kept/0; ln kept/0 kept/a
for dry in -n -v; do cp_ 23 'a: Is a directory, and not empty' -aH $dry kept/ kept.t/; done
# --inplace: users without the right to read the final file cannot read it while it is written. A
# file for which there is no space is not started.
head -c 12M /dev/urandom > secret; chmod 600 secret
echo old > written; chmod 644 written
"$programs/cordma-cp" --transport "$transport" -t -p --inplace --bwlimit 12M secret written > said 2>&1 &
writing=$!
until [ "$(stat -c %s written)" -gt 1000 ]; do kill -0 $writing || fail "it is over: $(cat said)"; sleep 0.02; done
[ "$(stat -c %a written)" = 600 ] || fail "--inplace: it is open while it is written"
wait $writing || fail "--inplace: $(cat said)"
cmp secret written
# A source that was left out stays at the target under its name in the tree. Of a file and a
# directory with the same name, the directory is copied.
mkdir -p left left.other left.t both/1 both/2/x/deep both.ours/x
ln -s nowhere left.other/link; touch left.t/link left.t/gone
cp_ 0 'left out: left.other/link' -r --delete left/ left.other/link left.t/
[ "$(ls left.t)" = link ] || fail "--delete removed what was left out, or not what is gone: $(ls left.t)"
echo file > both/1/x; echo inside > both/2/x/deep/in; touch both.ours/x/gone
cp -rp both.ours both.theirs
for order in '1 2' '2 1'; do
  read -r first second <<< "$order"
  rsync -a --delete both/$first/ both/$second/ both.theirs/
  cp_ 0 'left out: (both/[12]/)?x' -a --delete both/$first/ both/$second/ both.ours/
  [ -z "$(rsync -anic --delete both.theirs/ both.ours/)" ] || fail "a file and a directory: $(find both.theirs both.ours)"
  rm -r both.ours both.theirs; mkdir both.ours both.theirs
done
# --max-delete also applies to entries that are removed to make way, and --ignore-existing keeps
# existing entries of any kind.
mkdir -p way/d way.t/d way/x
echo file > way/in; echo inside > way/x/in
rm -r way/d; echo file > way/d; echo precious > way.t/d/kept
cp_ 23 'd: Is a directory, and not empty: it stays for --max-delete' -a --delete --max-delete=0 way/ way.t/
[ "$(cat way.t/d/kept)" = precious ] || fail "--max-delete let go of what was in the way"
rm -r way.t; mkdir way.t; echo precious > way.t/x
cp_ 23 'x: it is no directory there, and stays' -a --ignore-existing way/ way.t/
[ "$(cat way.t/x)" = precious ] || fail "--ignore-existing let go of a file"
[ "$(cat way.t/in)" = file ] || fail "what was not there did not come: $(ls way.t)"
# As with rsync, with --existing a directory replaces an existing file, and new entries in it are
# not copied.
mkdir -p kind/d kind.t; echo x > kind/d/x; echo file > kind.t/d
cp_ 0 '^0 files.* 1 directories' -a --existing --delete kind/ kind.t/
[ -d kind.t/d ] && [ ! -e kind.t/d/x ] || fail "--existing: $(find kind.t)"
# A pattern may itself state with a sign whether it includes or excludes.
mkdir signs signs.t; touch signs/a.o signs/b.o signs.t/kept
cp_ 0 '1 files' -a --delete --exclude '- kept' --exclude '+ a.o' --exclude '*.o' signs/ signs.t/
[ "$(ls signs.t | tr '\n' ' ')" = 'a.o kept ' ] || fail "signs of patterns: $(ls signs.t)"
for absent in -z --compress; do cp_ 1 'there is no compression' $absent -r opt/ ours.d/; done
# A list of files to copy, and symlinks replaced by their targets.
printf '%s\n' '# a comment' './sub/old' sub fresh/deep '/older' 'sub//extra' > list
tr '\n' '\0' < list | sed -z 1d > list0
sed 's/$/\r/' list > list.dos
for how in '-a --files-from=list' '-ar --files-from=list' '-a -0 --files-from=list0' '-rt --files-from=list' '-a --files-from=list.dos'; do as_rsync_all $how; done
ln -s ../fresh opt/sub/led
ln -s ../../rules opt/fresh/away
rm opt/link
as_rsync_all -aL
ln -s none opt/link
cp_ 23 'link: is a symlink that leads nowhere' -aL opt/ ours.d/
ln -sfn . opt/link
cp_ 23 'link: leads to a directory that it is in' -aL opt/ ours.d/
echo none/at/all >> list
# The directories that lead to a listed file are copied, even if they are excluded.
printf '%s\n' sub/old fresh/deep older > short.list
for rule in sub '*/' /sub/ old deep; do as_rsync_all -a "--exclude=$rule" --files-from=short.list; done
cp_ 23 'opt/none/at/all: No such file' -a --files-from list opt ours.d/
cp_ 1 'below one source' -a --files-from list opt opt/sub ours.d/
cp_ 1 'has no --delete' -ar --delete --files-from list opt ours.d/
cp_ 1 '"[.][.]/rules" is no path below the source' -a --files-from - opt ours.d/ <<< ../rules
cp_ 1 '"sub/" is what is in a directory, which comes with -r' -a --files-from - opt ours.d/ <<< sub/
cp_ 1 '"[.]/" is the source itself' -a --files-from - opt ours.d/ <<< ./
cp_ 23 'opt/sub/none: No such file' -ar --files-from - opt ours.d/ <<< $'sub\nsub/none'
cp_ 23 'older/none: Not a directory' -ar --files-from - opt ours.d/ <<< $'older\nolder/none'
cp_ 23 'nosuch.*: No such file' -a --files-from /dev/null nosuch ours.d/
cp_ 0 '^0 files' -a --files-from /dev/null opt ours.d/
(cd opt && find . -mindepth 1 -print0) > list0
as_rsync_all -a -0 --files-from=list0
# Rules terminated by NUL, and a rule that clears all rules before it.
printf 'sub\0older\0' > rules0
as_rsync_all -a -0 --exclude-from=rules0
as_rsync_all -a --exclude=older --exclude='!' --exclude=sub
cp_ 1 'has a NUL in it: -0' -a --exclude-from=rules0 opt/ ours.d/
# -i prints the same as rsync, except for the targets of links.
grown ours.d
chmod 600 ours.d/same; mkfifo opt/fifo; ln -sfn older opt/link; touch -d 2005-01-01 opt
signs() { grep -E '^[*<>.ch][^ ]{10} |^\*deleting' | sed -E 's/ (->|=>) .*//; s,^(\*deleting .*)/$,\1,' | sort; }
for how in -aiH -aiHc -riH; do
  diff <(timeout 60 rsync $how -n --delete opt/ ours.d/ | signs) <("$programs/cordma-cp" $how -n --delete opt/ ours.d/ | signs) > said ||
    fail "$how: not as rsync has it: $(cat said)"
done
cp_ 0 '^>f[.][.]t[.]{6} newer$' -ai opt/ ours.d/
rm opt/fifo opt/sub/led opt/fresh/away
# As with rsync, a source that is a symlink itself is left out.
cp_ 0 'left out: opt/link: is a symlink' opt/link alone.d/
cp_ 0 '1 links' -l opt/link alone.d/
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  cat > other.sh <<SCRIPT
set -e
mount -t tmpfs tmpfs opt/sub
echo other > opt/sub/other
mkdir -p x.d/sub
echo kept > x.d/sub/kept
"$programs/cordma-cp" --transport $transport -ax --delete opt/ x.d/ > output 2>&1
grep -q 'left out: sub: what is in it is on another file system, as -x has it' output
[ ! -e x.d/sub/other ]
[ -e x.d/sub/kept ]
SCRIPT
  unshare -m bash other.sh || fail "-x: $(cat output)"
fi
