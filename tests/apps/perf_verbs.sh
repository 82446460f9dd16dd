# What cordma-perf measures over an RDMA device, every byte checked: each test in one way of waiting or another.
source "$(dirname "$0")/expect.sh"
# To count system calls the kernel patches itself while it runs; on emulated processors that has left all of them turning in
# circles at the place, twice in a row.
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
  # Late as a generator of an emulated machine is, every answer is that of its request.
  "$programs/cordma-perf" --local --transport verbs --test send-lat,tag-lat,read-lat --load 500 --wait $wait \
    --iterations 50 --check > "$work/output" 2>&1 || true
  grep -v '^cordma-perf: \(note:\|not valid: the generator lagged\)' "$work/output" > "$work/rest"
  [ "$(grep -c ' 500/s ' "$work/rest")" -eq 3 ] && ! grep '^cordma-perf:' "$work/rest" ||
    fail "the open loop: $(cat "$work/output")"
done
# How much a device takes inline, and how deep its queues are, it says itself.
expect 1 'is more than .* has: at most' cordma-perf --local --transport verbs --inline 1000000 --iterations 1
perf '^send-lat ' --inline 0 --depth 16 --size 1,64,512 --iterations 20 --check
