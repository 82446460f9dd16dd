# Runs on two machines at once: the test of partition_test.cpp, as the client on a and the server on b.
export CORDMA_TEST_TRANSPORT=verbs
exec "$1" --source-file='*/verbs/partition_test.cpp'
