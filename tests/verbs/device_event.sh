# Runs device_event_test.cpp and removal_test.cpp on a machine on which they may change network and
# device.
set -e
export CORDMA_TEST_TRANSPORT=verbs
"$1" --source-file='*/verbs/device_event_test.cpp'
"$1" --source-file='*/verbs/removal_test.cpp'
