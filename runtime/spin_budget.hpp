// How long an adaptive reactor spins before it sleeps. Decisions only: no clock inside.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <algorithm>

namespace cordma {

// Follows the gaps between arrivals as KVM's halt polling does: grows while a somewhat longer spin
// would have saved a sleep, shrinks while spinning was in vain. Never above the cost of a wake-up,
// so that spinning and sleeping together cost at most twice the better of the two.
// One exception: two sides that answer each other can keep each other asleep, where the latency of a
// wake-up is above its cost. Each then sees gaps that are the other's wake-up, and too long to spin for.
// Where that may be so, a few waits in a while spin until the other has woken up: if it has only slept
// because this side did, both spin from then on.
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
    const duration arrived_after = gap - wake_latency_;
    if (trial_ > 0) {
      go_on_with_trial();
    } else if (arrived_after <= wake_cost_) {
      budget_ = wake_cost_;
    } else if (arrived_after - others_wake() <= wake_cost_ && ++waits_ >= interval_) {
      waits_ = 0;
      interval_ = std::min(2 * interval_, most_waits_between_trials);
      trial_ = waits_of_a_trial;
      budget_ = wake_cost_ + others_wake();
    } else {
      budget_ /= 2;
      if (budget_ < wake_cost_ / smallest_fraction) budget_ = duration::zero();
    }
  }
  // Work was found before the reactor slept.
  void work_came_while_awake() noexcept {
    if (trial_ > 0) {
      go_on_with_trial();
    } else {
      interval_ = least_waits_between_trials;  // it pays to spin
    }
  }

 private:
  static constexpr int smallest_fraction = 16;  // of the wake cost; a shorter spin is not worth it
  void go_on_with_trial() noexcept {
    if (--trial_ == 0) budget_ = wake_cost_;
  }
  // At most: what was measured here is the quickest of a few, and the other may sleep more deeply.
  [[nodiscard]] duration others_wake() const noexcept { return 2 * wake_latency_; }
  static constexpr int waits_of_a_trial = 4;  // they may be for different things in turn
  static constexpr int least_waits_between_trials = 4;
  static constexpr int most_waits_between_trials = 256;

  duration wake_cost_;
  duration wake_latency_;
  duration budget_;
  int waits_ = 0;  // that may have been the other side's wake-up, since the last trial
  int interval_ = least_waits_between_trials;
  int trial_ = 0;  // so many waits of one are left
};

}  // namespace cordma
