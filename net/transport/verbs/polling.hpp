// Takes completions from the device: by ibv_cq_ex if the device has it, else by ibv_poll_cq.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace cordma::transport::verbs {

// Creates a completion queue with the fields that take_extended() reads. Null, with errno set, on
// failure.
[[nodiscard]] owned<ibv_cq_ex> make_extended_queue(ibv_context* context, std::uint32_t entries,
                                                   ibv_comp_channel* channel, void* owner);

// Takes at most out.size() completions; fewer: none is left. The completions are handled after the
// queue is released, because a completion may be about that queue.
// `one_at_a_time`: for Soft-RoCE. Its ibv_next_poll releases the queue if it finds nothing, so that
// the required ibv_end_poll would consume a completion that does not exist.
[[nodiscard]] std::size_t take_extended(ibv_cq_ex* queue, bool one_at_a_time,
                                        std::span<ibv_wc> out) noexcept;

// Bound to one thread.
class polled_queue {
 public:
  // is_open() is false, and errno is set, if the device refuses. Events return `owner`.
  polled_queue(const device& d, std::uint32_t entries, ibv_comp_channel* channel, void* owner);
  [[nodiscard]] bool is_open() const noexcept { return queue_ != nullptr; }
  [[nodiscard]] ibv_cq* get() const noexcept { return queue_.get(); }
  [[nodiscard]] std::uint32_t entries() const noexcept {
    return static_cast<std::uint32_t>(queue_->cqe);
  }

  // Takes at most out.size(); fewer: none is left. Always set: wr_id and status. After a failure:
  // vendor_err and qp_num. For successful receives: opcode, byte_len, wc_flags, qp_num, and
  // imm_data or invalidated_rkey if wc_flags mark it. For datagrams: src_qp and slid. No other
  // field may be read.
  [[nodiscard]] std::size_t take(std::span<ibv_wc> out) noexcept {
    if (extended_ != nullptr) return take_extended(extended_, one_at_a_time_, out);
    return static_cast<std::size_t>(
        std::max(ibv_poll_cq(queue_.get(), static_cast<int>(out.size()), out.data()), 0));
  }
  // Resizes to at least `entries`, keeping the contents. False: the device refuses, and nothing has
  // changed.
  [[nodiscard]] bool grow(std::uint32_t entries) noexcept {
    return ibv_resize_cq(queue_.get(), static_cast<int>(entries)) == 0;
  }

 private:
  owned<ibv_cq> queue_;
  ibv_cq_ex* extended_ = nullptr;
  bool one_at_a_time_ = false;
};

}  // namespace cordma::transport::verbs
