// How long an adaptive reactor spins before it sleeps. Decisions only: no clock inside.
#pragma once

#include <cordma/runtime/clock.hpp>

namespace cordma {

// Follows the gaps between arrivals as KVM's halt polling does: grows while a somewhat longer spin
// would have saved a sleep, shrinks while spinning was in vain. Never above the cost of a wake-up,
// so that spinning and sleeping together cost at most twice the better of the two.
class spin_budget {
 public:
  // `wake_cost`: CPU time of one sleep and wake-up, on both sides. `wake_latency`: from the event to
  // the sleeper running; it is part of every gap that ended in a sleep, and none of the arrivals'.
  explicit spin_budget(duration wake_cost = duration::zero(),
                       duration wake_latency = duration::zero()) noexcept
      : wake_cost_(wake_cost), wake_latency_(wake_latency), budget_(wake_cost) {}

  [[nodiscard]] duration wake_cost() const noexcept { return wake_cost_; }
  [[nodiscard]] duration get() const noexcept { return budget_; }

  // Work was found `gap` after the reactor had run out of it, after a sleep.
  void work_came_while_asleep(duration gap) noexcept {
    if (gap - wake_latency_ <= wake_cost_) {
      budget_ = wake_cost_;
      return;
    }
    budget_ /= 2;
    if (budget_ < wake_cost_ / smallest_fraction) budget_ = duration::zero();
  }

 private:
  static constexpr int smallest_fraction = 16;  // of the wake cost; a shorter spin is not worth it

  duration wake_cost_;
  duration wake_latency_;
  duration budget_;
};

}  // namespace cordma
