// The parts of the device.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "device.hpp"

namespace stand_in {

inline constexpr std::size_t most_pending = 4096;  // completions of one queue; a power of two
inline constexpr std::size_t header_bytes = 40;    // in front of a datagram that arrived

struct context {
  ibv_context native{};
  payload of_connected = payload::dropped;
};

struct completion_queue {
  ibv_cq native{};
  std::array<ibv_wc, most_pending> pending;
  std::size_t first = 0;
  std::size_t end = 0;

  // Only the fields that are valid on success.
  [[gnu::always_inline]] ibv_wc& complete(std::uint64_t id, ibv_wc_opcode what, std::uint32_t bytes,
                                          const ibv_qp& on) noexcept {
    ibv_wc& wc = pending[end++ % most_pending];
    wc.wr_id = id;
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = what;
    wc.byte_len = bytes;
    wc.qp_num = on.qp_num;
    wc.wc_flags = 0;
    return wc;
  }
};

struct receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> into;
};

struct shared_queue {
  ibv_srq native{};
  std::deque<receive> receives;
};

// A request as it was posted, with its inline data.
struct request {
  ibv_send_wr wr{};
  std::vector<ibv_sge> segments;
  std::vector<std::byte> carried;
};

struct queue_pair {
  ibv_qp native{};
  shared_queue* shared = nullptr;
  std::deque<receive> receives;  // unless it uses shared ones
  std::deque<request> requests;  // not carried out yet
  std::uint32_t peer = 0;        // its number, once connected
  bool failed = false;
};

[[nodiscard]] inline completion_queue& of(ibv_cq* q) noexcept {
  return *reinterpret_cast<completion_queue*>(q);
}
[[nodiscard]] inline queue_pair& of(ibv_qp* q) noexcept {
  return *reinterpret_cast<queue_pair*>(q);
}
[[nodiscard]] inline shared_queue& of(ibv_srq* q) noexcept {
  return *reinterpret_cast<shared_queue*>(q);
}
[[nodiscard]] inline context& of(ibv_context* c) noexcept { return *reinterpret_cast<context*>(c); }

// Queue pairs by number.
[[nodiscard]] std::map<std::uint32_t, queue_pair*>& pairs();
// Regions by key.
[[nodiscard]] std::map<std::uint32_t, ibv_mr>& regions();

// The address by which the device accesses that memory.
[[nodiscard]] std::byte* reach(std::uint64_t address) noexcept;
[[nodiscard]] receive to_receive(const ibv_recv_wr& wr);
[[nodiscard]] request to_request(const ibv_send_wr& wr);
// The payload of a request, one piece after the other.
[[nodiscard]] std::vector<std::byte> gather(const request& r);
// REQUIRES space for the bytes.
void scatter(const std::vector<std::byte>& bytes, const std::vector<ibv_sge>& to) noexcept;

// For connected queue pairs that move their payload.
int send_moved(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int receive_moved(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int receive_shared(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
void modify_moved(queue_pair& qp, const ibv_qp_attr& attr, int mask);

}  // namespace stand_in
