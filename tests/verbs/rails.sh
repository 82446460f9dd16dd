# Runs rails_test.cpp on a machine that gets a second RDMA device, on a separate network card.
set -e
export CORDMA_TEST_TRANSPORT=verbs
ip link add wire2 type veth peer name wire3
ip link set wire3 mtu 4200 up
ip link set wire2 mtu 4200 up
ip addr add 10.78.0.1/24 dev wire2
rdma link add rxe1 type rxe netdev wire2
CORDMA_TEST_WAIT=event "$1" --source-file='*/verbs/rails_test.cpp' --test-case-exclude='*loses its address*'
"$1" --source-file='*/verbs/rails_test.cpp'
