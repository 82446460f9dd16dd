// The steps of a hand-made reliable queue pair, as in programs that use libibverbs beside cordma.
#pragma once

#include <doctest/doctest.h>

#include <infiniband/verbs.h>

#include <cstdint>

namespace cordma::test {

// Uses the device's first port.
inline void to_init(ibv_qp* qp, unsigned rights) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = rights;
  REQUIRE(ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

// Packets are numbered from `first_psn` in both directions. REQUIRES to_init().
inline void connect_to(ibv_qp* qp, std::uint32_t pair, std::uint32_t first_psn,
                       const ibv_ah_attr& way) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = pair;
  a.rq_psn = a.sq_psn = first_psn;
  a.max_dest_rd_atomic = a.max_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr = way;
  REQUIRE(ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 6;
  REQUIRE(ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

// Returns the status of the next completion of any kind.
[[nodiscard]] inline ibv_wc_status next_status(ibv_cq* cq) {
  ibv_wc wc{};
  int n = 0;
  while (n == 0) n = ibv_poll_cq(cq, 1, &wc);
  REQUIRE(n == 1);
  return wc.status;
}

}  // namespace cordma::test
