// Hand-written verbs: a reliable queue pair that is connected to itself, as in programs that use
// libibverbs beside cordma.
#pragma once

#include "raw_pair.hpp"

#include <doctest/doctest.h>

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace cordma::test {

class raw_loop {
 public:
  // Uses the device's first port, with its GID of index 1. `srq` may be null. Its requests complete
  // into `into` if that is not null; then next() may not be called.
  explicit raw_loop(ibv_pd* pd, ibv_srq* srq = nullptr, ibv_cq* into = nullptr)
      : cq_(into == nullptr ? ibv_create_cq(pd->context, 4 * depth, nullptr, nullptr, 0)
                            : nullptr) {
    REQUIRE((cq_ != nullptr || into != nullptr));
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = into != nullptr ? into : cq_;
    init.srq = srq;
    init.cap.max_send_wr = depth;
    init.cap.max_recv_wr = srq == nullptr ? depth : 0;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    qp_ = ibv_create_qp(pd, &init);
    REQUIRE(qp_ != nullptr);
    connect_to_itself();
  }
  raw_loop(const raw_loop&) = delete;
  raw_loop& operator=(const raw_loop&) = delete;
  ~raw_loop() {
    CHECK(ibv_destroy_qp(qp_) == 0);
    if (cq_ != nullptr) CHECK(ibv_destroy_cq(cq_) == 0);
  }

  void post_recv(std::byte* at, std::uint32_t bytes, std::uint32_t lkey) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), bytes, lkey};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(qp_, &wr, &bad) == 0);
  }
  void post_send(const std::byte* at, std::uint32_t bytes, std::uint32_t lkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    post(wr, at, bytes, lkey);
  }
  void post_write(const std::byte* at, std::uint32_t bytes, std::uint32_t lkey, std::uint64_t to,
                  std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = rkey;
    post(wr, at, bytes, lkey);
  }
  // Posts a write of no bytes to no memory; false: its queue is full.
  [[nodiscard]] bool post_nothing() {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    ibv_send_wr* bad = nullptr;
    const int code = ibv_post_send(qp_, &wr, &bad);
    REQUIRE((code == 0 || code == ENOMEM));
    return code == 0;
  }
  // Binds the complete region; the new key is the window's own key plus one.
  void post_bind(ibv_mw* window, ibv_mr* region, unsigned rights) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    wr.bind_mw.bind_info.mr = region;
    wr.bind_mw.bind_info.addr = reinterpret_cast<std::uintptr_t>(region->addr);
    wr.bind_mw.bind_info.length = region->length;
    wr.bind_mw.bind_info.mw_access_flags = rights;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp_, &wr, &bad) == 0);
  }
  // Returns the status of the next completion of any kind.
  [[nodiscard]] ibv_wc_status next() { return next_status(cq_); }

 private:
  static constexpr int depth = 64;
  static constexpr std::uint8_t port = 1;
  static constexpr std::uint8_t gid_index = 1;

  void post(ibv_send_wr& wr, const std::byte* at, std::uint32_t bytes, std::uint32_t lkey) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), bytes, lkey};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp_, &wr, &bad) == 0);
  }
  void connect_to_itself() {
    to_init(qp_, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_ah_attr way{};
    way.is_global = 1;
    way.port_num = port;
    way.grh.sgid_index = gid_index;
    way.grh.hop_limit = 1;
    REQUIRE(ibv_query_gid(qp_->context, port, gid_index, &way.grh.dgid) == 0);
    connect_to(qp_, qp_->qp_num, 77, way);
  }

  ibv_cq* cq_;
  ibv_qp* qp_ = nullptr;
};

}  // namespace cordma::test
