# The tests of cordma-perf over an RDMA device, with every byte checked and each test in at least
# one wait mode.
source "$(dirname "$0")/expect.sh"
# To count system calls, the kernel patches its own code while it runs. On emulated processors this
# has left all of them spinning at the patched place, twice in a row.
umount /sys/kernel/tracing 2> /dev/null || true

perf() { expect 0 "$1" cordma-perf --local --transport verbs "${@:2}"; }

tests=idle,write-bi  # write-lat cannot be checked
for what in send tag am stream write-imm read fetch-add compare-swap; do tests+=,$what-lat,$what-bi; done
perf '^write-lat ' --test write-lat --iterations 30
expect 1 'messages were wrong' cordma-perf --local --transport verbs --test send-bw,read-bi --iterations 40 --check --flip
perf '^compare-swap-bi +verbs +event ' --test $tests --wait event --iterations 30 --check
perf '^write-imm-bw 2x12 ' --test send-bw,tag-bw,am-bw,stream-bw,write-bw,write-imm-bw --flows 2 --outstanding 4 \
  --messages 3 --size 5000 --wait adaptive --iterations 60 --check
perf '^fetch-add-lat 2x7 ' --test send-lat,tag-lat,write-imm-lat,read-lat,fetch-add-lat --outstanding 7 --flows 2 \
  --wait polling --iterations 60 --check
for wait in polling event adaptive; do
  # Although the generator lags on an emulated machine, every response matches its request.
  "$programs/cordma-perf" --local --transport verbs --test send-lat,tag-lat,read-lat --load 500 --wait $wait \
    --iterations 50 --check > "$work/output" 2>&1 || true
  grep -v '^cordma-perf: \(note:\|not valid: the generator lagged\)' "$work/output" > "$work/rest"
  [ "$(grep -c ' 500/s ' "$work/rest")" -eq 3 ] && ! grep '^cordma-perf:' "$work/rest" ||
    fail "the open loop: $(cat "$work/output")"
done
# The device reports its inline limit and the depth of its queues.
expect 1 'is more than .* has: at most' cordma-perf --local --transport verbs --inline 1000000 --iterations 1
perf '^send-lat ' --inline 0 --depth 16 --size 1,64,512 --iterations 20 --check
