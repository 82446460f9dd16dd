# Connections made, used, ended and killed leave nothing on the device: its own count says so.
set -euo pipefail
count() { rdma resource show | grep "${RDMA_DEVICE:-rxe0}"; }
before=$(count)
CORDMA_TEST_TRANSPORT=verbs "$1" --source-file='*/conformance/end_test.cpp'
CORDMA_TEST_TRANSPORT=verbs "$1" --source-file='*/conformance/connect_test.cpp'
CORDMA_TEST_TRANSPORT=verbs "$1" --source-file='*/conformance/window_test.cpp'
# Identifiers of ended connections stay in the kernel's timewait for a moment.
for _ in {1..100}; do
  after=$(count)
  [ "$after" != "$before" ] || break
  read -rt 0.1 <> <(:) || true
done
printf 'before: %s\nafter:  %s\n' "$before" "$after"
[ "$after" = "$before" ]
