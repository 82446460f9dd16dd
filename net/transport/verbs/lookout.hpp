// When an adapter looks at its descriptors.
#pragma once

#include <cordma/runtime/check.hpp>

namespace cordma::transport::verbs {

// Bound to the adapter's thread.
class lookout {
 public:
  // One poll more: whether that looks.
  [[nodiscard]] bool is_due() noexcept {
    if (waiting_ == 0 && left_ != 0) {
      --left_;
      return false;
    }
    left_ = polls_per_look;
    return true;
  }
  // While anybody waits for rdma_cm, every poll looks.
  void add_waiting(int change) noexcept {
    waiting_ += change;
    CORDMA_ASSERT_OP(waiting_, >=, 0);
  }
  [[nodiscard]] int waiting() const noexcept { return waiting_; }
  // Most wake-ups are for completions, whose notification arm() reads. Only if there are
  // none does a poll look.
  void wake() noexcept { woken_ = true; }
  [[nodiscard]] bool take_wake() noexcept {
    if (!woken_) [[likely]]
      return false;
    woken_ = false;
    return true;
  }

 private:
  static constexpr unsigned polls_per_look = 64;
  unsigned left_ = 0;  // polls until the next look
  int waiting_ = 0;
  bool woken_ = false;
};

}  // namespace cordma::transport::verbs
