# Long files are copied past the page cache where the file system supports it, and arrive unchanged.
source "$(dirname "$0")/expect.sh"
direct_opens() { grep -cw O_DIRECT "$work/trace" || true; }
# The kernel keeps pages that it is still writing, or that another processor has just used; a file system in memory
# keeps all of them.
uncache() {
  local try
  for try in {1..100}; do
    dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 2> /dev/null
    if [ "$fs" = tmpfs ] || ! command -v fincore > /dev/null || [ "$(fincore -bno RES "$1")" -eq 0 ]; then return; fi
    sleep 0.05
  done
  echo "after $try attempts the page cache still holds pages of $1"
}

head -c 67200001 /dev/urandom > "$work/long"  # more than 64 MiB, and no multiple of the block size
head -c 20000000 /dev/urandom > "$work/short"
fs=$(stat -f -c %T "$work")
uncache "$work/long"
under=(strace -f -e trace=open,openat -o "$work/trace")
command -v strace > /dev/null || under=()
expect 0 'files' cordma-cp -a "$work/long" "$work/short" "$work/to/"
cmp "$work/long" "$work/to/long" || fail "a long file"
cmp "$work/short" "$work/to/short" || fail "a short file"
if [ ${#under[@]} -eq 0 ] || [ "$fs" = tmpfs ]; then
  echo "not looked at: which files were opened past the cache (strace is missing, or the tests lie in memory)"
else
  [ "$(direct_opens)" -eq 2 ] || fail "past the cache: $(direct_opens) times, not once on each side"
  # Data in the page cache is read from there.
  cat "$work/long" > /dev/null
  expect 0 'files' cordma-cp -a -I "$work/long" "$work/short" "$work/to/"
  [ "$(direct_opens)" -eq 1 ] || fail "a file in the cache: past it $(direct_opens) times"
  expect 0 'files' cordma-cp -a -I --no-direct "$work/long" "$work/to/"
  [ "$(direct_opens)" -eq 0 ] || fail "--no-direct: past the cache $(direct_opens) times"
fi
under=()
# Over an existing file, with --inplace, and without resuming.
uncache "$work/long"
for how in -I --inplace --no-resume; do
  expect 0 'files' cordma-cp -I "$how" "$work/long" "$work/to/long"
  cmp "$work/long" "$work/to/long" || fail "$how"
done
# A file system in memory does not support direct I/O.
memory=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$memory"; cleanup' EXIT
expect 0 'files' cordma-cp "$work/long" "$memory/"
expect 0 'files' cordma-cp -I "$memory/long" "$work/to/"
cmp "$work/long" "$work/to/long" || fail "by way of memory"
