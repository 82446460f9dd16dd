// One queue of an endpoint's queue pair: its entries, and the operations that wait for one.
#pragma once

#include <cordma/net/operations.hpp>
#include <cordma/runtime/ticks.hpp>

#include <cstdint>

namespace cordma::detail {

// Bound to the thread of its Worker.
class request_line {
 public:
  // Requests in flight keep their entries. REQUIRES depth >= in_flight().
  void resize(std::uint32_t depth) noexcept {
    const std::uint32_t used = in_flight();
    CORDMA_ASSERT_OP(depth, >=, used);
    depth_ = depth;
    free_ = depth - used;
  }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return depth_ - free_; }
  [[nodiscard]] bool has_place() const noexcept { return free_ != 0; }
  void take_place() noexcept { --free_; }
  void give_back() noexcept { ++free_; }

  [[nodiscard]] bool is_waited_for() const noexcept { return !waiting_.empty(); }
  [[nodiscard]] list<post_base>& waiting() noexcept { return waiting_; }
  // While operations wait: the time when one of them was last posted, or when the first began to
  // wait.
  [[nodiscard]] coarse_time waited_for_since() const noexcept { return since_; }
  void wait(post_base& op, coarse_time now) noexcept {
    if (waiting_.empty()) since_ = now;
    waiting_.push_back(op);
  }
  // Removes the first waiting operation. REQUIRES that one waits.
  [[nodiscard]] post_base& next(coarse_time now) noexcept {
    since_ = now;
    return waiting_.pop_front();
  }

 private:
  std::uint32_t free_ = 0;
  std::uint32_t depth_ = 0;
  coarse_time since_ = 0;
  list<post_base> waiting_;
};

}  // namespace cordma::detail
