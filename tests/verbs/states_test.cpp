// The state transitions of a queue pair, which the kernel demands and cordma makes for every
// connection: the attributes that each one needs, by service, and that a transition that lacks one
// changes nothing. Also the attributes that the device reports for an Endpoint's queue pair.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <infiniband/verbs.h>

#include <cerrno>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

struct step {
  ibv_qp_state to;
  std::vector<int> needs;
};

std::vector<step> steps_of(ibv_qp_type type) {
  std::vector<int> init{IBV_QP_PKEY_INDEX, IBV_QP_PORT};
  std::vector<int> receive;
  std::vector<int> send{IBV_QP_SQ_PSN};
  if (type == IBV_QPT_UD) {
    init.push_back(IBV_QP_QKEY);
  } else {
    init.push_back(IBV_QP_ACCESS_FLAGS);
    receive = {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN};
  }
  if (type == IBV_QPT_RC) {
    receive.insert(receive.end(), {IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER});
    send.insert(send.end(),
                {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC});
  }
  return {{IBV_QPS_INIT, init}, {IBV_QPS_RTR, receive}, {IBV_QPS_RTS, send}};
}

// Attributes with valid values, for a queue pair that is connected to itself.
ibv_qp_attr good_attributes(ibv_qp* qp) {
  ibv_qp_attr a{};
  a.port_num = 1;
  a.qkey = 11;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qp->qp_num;
  a.max_dest_rd_atomic = a.max_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 6;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.sgid_index = 1;
  a.ah_attr.grh.hop_limit = 1;
  REQUIRE(ibv_query_gid(qp->context, 1, 1, &a.ah_attr.grh.dgid) == 0);
  return a;
}

ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(qp, &a, IBV_QP_STATE, &init) == 0);
  return a.qp_state;
}

void climb(ibv_qp* qp) {
  ibv_qp_attr a = good_attributes(qp);
  for (const step& s : steps_of(qp->qp_type)) {
    a.qp_state = s.to;
    int all = IBV_QP_STATE;
    for (const int need : s.needs) all |= need;
    const ibv_qp_state before = state_of(qp);
    for (const int need : s.needs) {
      CAPTURE(need);
      CHECK(ibv_modify_qp(qp, &a, all & ~need) == EINVAL);
      CHECK(state_of(qp) == before);
    }
    CHECK(ibv_modify_qp(qp, &a, all) == 0);
    CHECK(state_of(qp) == s.to);
  }
}

}  // namespace

TEST_CASE(
    "L2: each step of a queue pair needs its attributes, all of them, or nothing changes [RC, UC, "
    "UD]") {
  host h;
  ibv_pd* const pd = h.context.native_pd().value();
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    CAPTURE(static_cast<int>(type));
    ibv_cq* const queue = ibv_create_cq(pd->context, 8, nullptr, nullptr, 0);
    REQUIRE(queue != nullptr);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue;
    init.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = type;
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    REQUIRE(qp != nullptr);
    climb(qp);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(queue) == 0);
  }
}

namespace {

std::string device_state(const Endpoint& e) {
  const result<transport::queue_pair_state> r = e.debug_state();
  return std::string(r ? name(*r) : name(r.code()));
}

}  // namespace

TEST_CASE("L2: an endpoint tells the state of its queue pair, from its preparation to its end") {
  stage s;
  s.play([](stage& on) -> task<> {
    Endpoint here = on.client().prepare().value();
    Endpoint there = on.server().prepare().value();
    CHECK(device_state(here) == "init");
    const std::vector<std::byte> own = here.descriptor().value();
    here.connect(there.descriptor().value()).value();
    there.connect(own).value();
    while (here.state() != endpoint_state::connected) co_await moment(on);
    while (there.state() != endpoint_state::connected) co_await moment(on);
    CHECK(device_state(here) == "rts");
    CHECK(device_state(there) == "rts");
    there.abort();
    CHECK(device_state(there) == "not_connected");
    while (here.state() != endpoint_state::closed) co_await moment(on);
    CHECK(device_state(here) == "error");
  });
}
