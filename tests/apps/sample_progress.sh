# The samples about waiting for completions, and the numbers that they document: TRANSPORT WAIT.
source "$(dirname "$0")/samples.sh"
how=(--transport "$2") wait=(--wait "$3")

expect 0 '^16 writes are done, after [0-9]+ polls and 0 sleeps$' sample-progress_polling "${how[@]}"
expect 0 '^16 messages have arrived, with [0-9]+ sleeps' sample-progress_event "${how[@]}"
how+=("${wait[@]}")
expect 0 '^16 operations: 8 done, 8 flushed$' sample-progress_async_stop "${how[@]}"
expect 0 '^16 writes on 4 contexts, one thread and one loop$' sample-progress_multi_context "${how[@]}"
[ "$(grep -cx 'a context: 4 writes are done' "$work/output")" = 4 ] || fail "not 4 for each context"
expect 0 '^16 writes are done$' sample-progress_reactive "${how[@]}"
states=$(grep -Ex 'connecting|connected|closing|closed' "$work/output" | tr '\n' ' ')
# A check after one pass of the reactor may find the connection already established.
[ "${states#connecting }" = 'connected closing closed ' ] || fail "the states came otherwise: $states"
expect 0 '^16 callbacks: 15 good, 1 refused$' sample-progress_single_callback "${how[@]}"
expect 0 '^255 resumptions: [0-9]+ done, 1 failed, [0-9]+ flushed$' sample-progress_error "${how[@]}"
grep -q '^the failure: .*remote_access' "$work/output" || fail "another failure than expected"
expect 0 '^4 operations have filled 16 buffers$' sample-progress_resubmit "${how[@]}"
expect 0 '^refused: .*invalid_value' sample-progress_try_start "${how[@]}"
grep -qx 'posted so far: 0' "$work/output" || fail "what was refused was posted"
grep -q '^done: ' "$work/output" || fail "the valid one did not come through"
