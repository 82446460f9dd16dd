// Decides when an adapter polls more than its completion queues.
#pragma once

#include <cordma/runtime/check.hpp>

#include <utility>

namespace cordma::transport::verbs {

// Bound to the adapter's thread.
class lookout {
 public:
  // Counts one poll; true if this poll only has to look at the completion queues.
  [[nodiscard]] bool begin_short() noexcept {
    if (calm_ == 0) return false;
    --calm_;
    return true;
  }
  // False: there is more to look at, at the end of this poll or in the next one.
  [[nodiscard]] bool is_calm() const noexcept { return calm_ != 0; }
  void stir() noexcept {
    left_ += calm_;
    calm_ = 0;
  }
  // Makes polls short until the next look. REQUIRES that nothing else is due.
  void calm_down() noexcept {
    if (waiting_ == 0 && !woken_) calm_ = std::exchange(left_, 0U);
  }
  // For a poll that is not short: true if it looks at the descriptors.
  [[nodiscard]] bool is_due() noexcept {
    if (waiting_ == 0 && left_ != 0) {
      --left_;
      return false;
    }
    left_ = polls_per_look;
    return true;
  }
  // While an operation waits for rdma_cm, every poll looks.
  void add_waiting(int change) noexcept {
    waiting_ += change;
    CORDMA_ASSERT_OP(waiting_, >=, 0);
    stir();
  }
  [[nodiscard]] int waiting() const noexcept { return waiting_; }
  // Most wake-ups are for completions; arm() reads their notification. A poll looks only if there
  // are none.
  void wake() noexcept {
    woken_ = true;
    stir();
  }
  [[nodiscard]] bool take_wake() noexcept { return std::exchange(woken_, false); }

 private:
  static constexpr unsigned polls_per_look = 64;
  unsigned calm_ = 0;  // short polls to come
  unsigned left_ = 0;  // polls until the next look, after those
  int waiting_ = 0;
  bool woken_ = false;
};

}  // namespace cordma::transport::verbs
