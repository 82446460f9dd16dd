// Taking completions from the device: by ibv_cq_ex where it has that, else by ibv_poll_cq.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace cordma::transport::verbs {

// A completion queue with the fields that take_extended() reads. Null, and errno.
[[nodiscard]] owned<ibv_cq_ex> make_extended_queue(ibv_context* context, std::uint32_t entries,
                                                   ibv_comp_channel* channel, void* owner);

// Takes at most out.size(); fewer: nothing is left. What happened to a completion is decided after the
// queue is let go of again, because it may be about that queue.
// `one_at_a_time`: for Soft-RoCE, whose ibv_next_poll lets go of the queue when it finds nothing, so that
// the ibv_end_poll that has to follow takes a completion that is not there.
[[nodiscard]] std::size_t take_extended(ibv_cq_ex* queue, bool one_at_a_time,
                                        std::span<ibv_wc> out) noexcept;

// Bound to one thread.
class polled_queue {
 public:
  // is_open() is false, and errno says why, where the device refuses. `owner` comes back with events.
  polled_queue(const device& d, std::uint32_t entries, ibv_comp_channel* channel, void* owner);
  [[nodiscard]] bool is_open() const noexcept { return queue_ != nullptr; }
  [[nodiscard]] ibv_cq* get() const noexcept { return queue_.get(); }
  [[nodiscard]] std::uint32_t entries() const noexcept {
    return static_cast<std::uint32_t>(queue_->cqe);
  }

  // At most out.size(); fewer: nothing is left. wr_id and status are set; of what failed vendor_err and
  // qp_num; of receives that succeeded opcode, byte_len, wc_flags, qp_num, and imm_data or
  // invalidated_rkey where wc_flags say so; of datagrams src_qp and slid. Nothing else may be read.
  [[nodiscard]] std::size_t take(std::span<ibv_wc> out) noexcept {
    if (extended_ != nullptr) return take_extended(extended_, one_at_a_time_, out);
    return static_cast<std::size_t>(
        std::max(ibv_poll_cq(queue_.get(), static_cast<int>(out.size()), out.data()), 0));
  }
  // To so many entries at least, with what is in it. False: the device refuses, and it stays as it is.
  [[nodiscard]] bool grow(std::uint32_t entries) noexcept {
    return ibv_resize_cq(queue_.get(), static_cast<int>(entries)) == 0;
  }

 private:
  owned<ibv_cq> queue_;
  ibv_cq_ex* extended_ = nullptr;
  bool one_at_a_time_ = false;
};

}  // namespace cordma::transport::verbs
