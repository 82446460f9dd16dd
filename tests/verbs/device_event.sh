# Runs device_event_test.cpp on a machine whose network it may change.
export CORDMA_TEST_TRANSPORT=verbs
exec "$1" --source-file='*/verbs/device_event_test.cpp'
