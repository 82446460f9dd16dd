# Arguments that apps/demo.sh refuses with one sentence, before it builds anything. PROGRAMS SOURCES
source "$(dirname "$0")/expect.sh"
demo=$2/apps/demo.sh

# refused CODE REGEX ARGUMENT...: demo.sh exits with CODE, and its only line on standard error matches.
refused() {
  local code=$1 regex=$2 got=0
  shift 2
  "${under[@]}" bash "$demo" "$@" > "$work/output" 2> "$work/errors" || got=$?
  [ "$got" -eq "$code" ] || { cat "$work/output" "$work/errors"; fail "demo.sh $* exited with $got, not $code"; }
  [ "$(wc -l < "$work/errors")" -eq 1 ] || { cat "$work/errors"; fail "demo.sh $* printed more than one line"; }
  grep -Eq -e "$regex" "$work/errors" || { cat "$work/errors"; fail "demo.sh $* printed no line like: $regex"; }
}

refused 2 "unknown option '--nonsense'; --help" --nonsense
refused 2 '--compiler needs a name' --compiler
refused 2 '--programs builds nothing' --programs "$programs" --build "$work/new"
refused 2 "--tree: '$work/nowhere' is no directory" --tree "$work/nowhere"
refused 1 "no programs in $work" --programs "$work"
refused 1 "--compiler: 'no-such-compiler' is not installed" --compiler no-such-compiler
for unfit in /bin/true /bin/false "$(command -v gcc-12 || echo /bin/true)" "$(command -v clang-19)"; do
  refused 1 "--compiler: '$unfit' cannot build cordma, which needs clang[+][+] 17" --compiler "$unfit"
done
printf '#!/bin/sh\nexec clang++-19 -D__clang_major__=16 -Wno-builtin-macro-redefined "$@"\n' > "$work/old"
chmod +x "$work/old"
(cd "$work" && refused 1 "--compiler: '$work/old' cannot build cordma, which needs clang[+][+] 17" --compiler ./old)
mkdir "$work/full of something"
touch "$work/full of something/file"
refused 1 'is neither empty nor a build folder' --build "$work/full of something"
mkdir "$work/stale"
printf 'CMAKE_CXX_COMPILER:FILEPATH=/usr/bin/other\nCMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$2" > "$work/stale/CMakeCache.txt"
refused 1 'was configured with another compiler or for another checkout' --build "$work/stale"
[ -e "$work/stale/CMakeCache.txt" ] || fail "a build folder that the user named was cleared"

# The first line of progress may appear before the first step is complete. An interrupted build
# leaves no process running.
cat > "$work/slow" <<'SLOW'
#!/bin/sh
case $* in *cmTC_*) ;; *.dir/*) echo $$ >> "$SLOW_PIDS"; exec sleep 1000 ;; esac
exec clang++-19 "$@"
SLOW
chmod +x "$work/slow"
export SLOW_PIDS=$work/pids
bash "$demo" --compiler "$work/slow" --build "$work/interrupted" > "$work/output" 2> "$work/errors" &
demo_pid=$!
background+=("$demo_pid")
until grep -q '^building: ' "$work/output"; do
  kill -0 "$demo_pid" || { cat "$work/output" "$work/errors"; fail "demo.sh ended before a line of progress"; }
  sleep 0.1
done
grep -q '^building: no step is done after ' "$work/output" || fail "another line came first: $(cat "$work/output")"
kill -TERM "$demo_pid"
wait "$demo_pid" || true
while read -r pid; do
  waited=0
  while kill -0 "$pid" 2> /dev/null; do
    [ $((waited += 1)) -le 100 ] || fail "a compiler outlived demo.sh"
    sleep 0.1
  done
done < "$SLOW_PIDS"
[ ! -s "$work/errors" ] || { cat "$work/errors"; fail "an interrupted demo.sh printed an error"; }

# A read-only checkout, as an ordinary user.
if [ "$(id -u)" -eq 0 ]; then
  mkdir -p "$work/checkout/apps" "$work/checkout/.ci"
  cp -r "$2/.cmake" "$work/checkout/"
  cp "$demo" "$work/checkout/apps"
  cp "$2/.ci/packages.sh" "$work/checkout/.ci"
  chmod 755 "$work"
  demo=$work/checkout/apps/demo.sh under=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
else
  cp -r "$2/apps" "$2/.ci" "$2/.cmake" "$work/"
  chmod a-w "$work"
  demo=$work/apps/demo.sh
fi
refused 1 "cannot be written; --build DIR builds in another folder"
chmod u+w "$work"
