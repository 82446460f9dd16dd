// Requests in the form of the device, and posting of sends: in a region of ibv_wr_* if the queue
// pair was created for it, else by ibv_post_send. Both take ibv_send_wr.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/limits.hpp>

#include <arpa/inet.h>

#include <array>
#include <cstddef>

namespace cordma::transport::verbs {

// libibverbs's view of the same memory, which it only reads.
static_assert(sizeof(segment) == sizeof(ibv_sge) && alignof(segment) == alignof(ibv_sge) &&
              offsetof(segment, addr) == offsetof(ibv_sge, addr) &&
              sizeof(segment::addr) == sizeof(ibv_sge::addr) &&
              offsetof(segment, length) == offsetof(ibv_sge, length) &&
              offsetof(segment, lkey) == offsetof(ibv_sge, lkey));
static_assert(sizeof(ibv_sge::length) == sizeof(segment::length) &&
              sizeof(ibv_sge::lkey) == sizeof(segment::lkey));
[[nodiscard]] inline ibv_sge* as_sges(const segment* s) noexcept {
  return reinterpret_cast<ibv_sge*>(const_cast<segment*>(s));
}

// A receive for ibv_post_recv and ibv_post_srq_recv. It and its segments may be freed once it is
// posted.
[[nodiscard]] inline ibv_recv_wr to_wr(const recv_request& r, std::uint64_t id) noexcept {
  return {.wr_id = id, .next = nullptr, .sg_list = as_sges(r.segments), .num_sge = r.segment_count};
}

// Keys of RDMA devices have 32 bits. A longer key belongs to none of them, and must not be
// truncated to one.
[[nodiscard]] inline std::uint32_t to_rkey(std::uint64_t rkey) noexcept {
  if (rkey > UINT32_MAX) [[unlikely]]
    return 0;
  return static_cast<std::uint32_t>(rkey);
}

// By opcode. A flush is a read of zero bytes, or the operation of verbs_pair::right_to_ask(): it
// needs no key, and its answer follows all earlier requests.
inline constexpr std::array<ibv_wr_opcode, opcode_count> native_opcodes = {
    IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM,
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_RDMA_READ,
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_RDMA_READ,
    IBV_WR_SEND,  // recv and recv_write_imm are not posted here
    IBV_WR_SEND,
    IBV_WR_BIND_MW,
    IBV_WR_SEND_WITH_INV,
};
static_assert(native_opcodes[static_cast<std::size_t>(opcode::flush)] == IBV_WR_RDMA_READ);
static_assert(native_opcodes[static_cast<std::size_t>(opcode::bind)] == IBV_WR_BIND_MW);
static_assert(native_opcodes[static_cast<std::size_t>(opcode::send)] == IBV_WR_SEND);
static_assert(native_opcodes[static_cast<std::size_t>(opcode::write)] == IBV_WR_RDMA_WRITE);
static_assert(native_opcodes[static_cast<std::size_t>(opcode::send_invalidate)] ==
              IBV_WR_SEND_WITH_INV);

// Fills a request for the most frequent opcodes. Sets only the fields that the device reads.
[[gnu::always_inline]] inline void describe(ibv_send_wr& wr, const send_request& r, ibv_sge* pieces,
                                            std::uint64_t id, unsigned flags) noexcept {
  wr.wr_id = id;
  wr.next = nullptr;
  wr.sg_list = pieces;
  wr.num_sge = r.segment_count;
  wr.opcode = native_opcodes[static_cast<std::size_t>(r.op)];
  wr.send_flags = flags;
  wr.imm_data = htonl(r.imm);
  wr.wr.rdma.remote_addr = r.remote_addr;
  wr.wr.rdma.rkey = to_rkey(r.rkey);
}

struct post_outcome {
  int code = 0;  // errno; 0: the device has all requests
  // If the code is not 0, the first request that the device does not have; null: it has none of
  // them.
  const ibv_send_wr* refused = nullptr;
};

// The send queue of a queue pair, which must outlive it. Bound to the queue pair's thread.
class send_queue {
 public:
  send_queue() = default;
  // `extended` null: posts by ibv_post_send.
  // `one_segment`: for Soft-RoCE. Its ibv_wr_set_sge_list assumes that all segments are as long as
  // the first, and its ibv_wr_set_inline_data_list sends nothing: lists with such a request are
  // posted by ibv_post_send.
  send_queue(ibv_qp* pair, ibv_qp_ex* extended, bool one_segment) noexcept
      : pair_(pair), extended_(extended), one_segment_(one_segment) {}

  // Posts a complete list with one doorbell. A region refuses all its requests together, and does
  // not report which one is wrong. The list and its inline data may be freed on return.
  [[nodiscard]] post_outcome post(ibv_send_wr* list) const noexcept {
    return extended_ != nullptr ? post_extended(list) : post_plain(list);
  }
  [[nodiscard]] bool is_extended() const noexcept { return extended_ != nullptr; }
  // Posts one send, write or read of a connection, built without a copy. `flags`: IBV_SEND_*.
  [[nodiscard, gnu::always_inline]] post_outcome post_one(const send_request& r, std::uint64_t id,
                                                          unsigned flags) const noexcept {
    if (extended_ != nullptr && !(one_segment_ && r.segment_count > 1)) {
      return post_one_extended(r, id, flags);
    }
    ibv_send_wr wr;
    ibv_send_wr* refused;  // can only be this request
    describe(wr, r, as_sges(r.segments), id, flags);
    return {ibv_post_send(pair_, &wr, &refused), nullptr};
  }

 private:
  [[nodiscard]] post_outcome post_plain(ibv_send_wr* list) const noexcept {
    ibv_send_wr* refused = nullptr;
    const int code = ibv_post_send(pair_, list, &refused);
    return {code, refused};
  }
  [[nodiscard]] post_outcome post_one_extended(const send_request& r, std::uint64_t id,
                                               unsigned flags) const noexcept;
  [[nodiscard]] post_outcome post_extended(ibv_send_wr* list) const noexcept;

  ibv_qp* pair_ = nullptr;
  ibv_qp_ex* extended_ = nullptr;
  bool one_segment_ = false;
};

// Creates a queue pair for the requests of its service, atomics and windows if the device has them.
// Null, with errno set, on failure; else `init.cap` is the capacity that the device grants.
[[nodiscard]] owned<ibv_qp> make_extended_pair(ibv_pd* pd, ibv_qp_init_attr& init,
                                               const ibv_device_attr& has);

struct made_pair {
  owned<ibv_qp> pair;  // null, with errno set, if the device refuses
  send_queue sends;
  ibv_qp_cap given{};
};
[[nodiscard]] made_pair make_queue_pair(const device& d, ibv_pd* pd, ibv_qp_init_attr init);

}  // namespace cordma::transport::verbs
