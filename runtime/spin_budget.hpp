// How long an adaptive reactor spins before it sleeps. Decisions only: no clock inside.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <algorithm>

namespace cordma {

// Follows the gaps between arrivals as KVM's halt polling does: grows while a somewhat longer spin
// would have saved a sleep, shrinks while spinning was in vain. At most the cost of a wake-up, so
// that spinning and sleeping together cost at most twice the better of the two.
// One exception: two sides that answer each other can keep each other asleep if the latency of a
// wake-up is above its cost. Each then sees gaps that are the other's wake-up, and too long to spin
// for. Hence trials: a few waits that spin until the other has woken up. If the other slept only
// because this side did, both spin from then on. A side whose gaps
// suddenly become shorter assumes that the other is in a trial, and starts one as well. Trials have
// a budget: every sleep, and every wait that was short enough to spin for, adds a fraction of its
// cost, and a trial may spend the sum.
class spin_budget {
 public:
  // `wake_cost`: CPU time of one sleep and wake-up, on both sides. `wake_latency`: the least time
  // from the event until the sleeper runs; it is part of every gap that ended in a sleep.
  explicit spin_budget(duration wake_cost = duration::zero(),
                       duration wake_latency = duration::zero()) noexcept
      : wake_cost_(wake_cost), wake_latency_(wake_latency), budget_(wake_cost) {}
  // Never spins for longer than `limit`: no trials.
  [[nodiscard]] static spin_budget at_most(duration limit) noexcept {
    spin_budget b(limit);
    b.may_try_ = false;
    return b;
  }

  [[nodiscard]] duration wake_cost() const noexcept { return wake_cost_; }
  [[nodiscard]] duration get() const noexcept { return budget_; }

  // Adds a measurement: the cost of one more sleep and wake-up.
  void wake_up_took(duration cost) noexcept { wake_cost_ += (cost - wake_cost_) / 8; }
  // Work was found `gap` after the reactor had run out of it, after a sleep.
  void work_came_while_asleep(duration gap) noexcept {
    if (gap - wake_latency_ <= wake_cost_) {
      spinning_pays();
      return;
    }
    const bool sooner = gap < usual_gap_ * 3 / 4;
    usual_gap_ = usual_gap_ == duration::zero() ? gap : (3 * usual_gap_ + gap) / 4;
    save(wake_cost_ / 4);
    if (trial_ > 0) {
      spend(budget_);
    } else if (may_try_ && saved_ >= usual_gap_ * (sooner ? 1 : 3)) {
      trial_ = waits_of_a_trial;
      budget_ = usual_gap_ * 3 / 2;
    } else {
      budget_ /= 2;
      if (budget_ < wake_cost_ / smallest_fraction) budget_ = duration::zero();
    }
  }
  // `times` waits found work so soon that their gap was not measured.
  void work_came_at_once(unsigned times) noexcept {
    if (times == 0) return;
    save(wake_cost_ / 16 * std::min<unsigned>(times, most_saved * 16));
    spinning_pays();
  }
  // Work was found before the reactor slept.
  void work_came_while_awake(duration gap) noexcept {
    if (gap <= wake_cost_) {
      save(wake_cost_ / 16);
      spinning_pays();
    } else {
      spend(gap);
    }
  }
  // The wait ended with a timer of this side itself, and gives no information about the other side.
  void own_timer_fired(duration waited) noexcept {
    if (trial_ > 0) spend(std::min(waited, budget_));
  }

 private:
  static constexpr int smallest_fraction = 16;  // of the wake cost; a shorter spin has no effect
  static constexpr int waits_of_a_trial = 4;    // successive waits may be for different events
  static constexpr int most_saved = 1024;       // times the wake cost

  void spinning_pays() noexcept {
    trial_ = 0;
    budget_ = wake_cost_;
    usual_gap_ = duration::zero();
  }
  void save(duration d) noexcept { saved_ = std::min(saved_ + d, most_saved * wake_cost_); }
  void spend(duration d) noexcept {
    if (trial_ == 0) return;
    saved_ -= d;
    if (--trial_ == 0 || saved_ <= duration::zero()) {
      trial_ = 0;
      budget_ = duration::zero();
    }
  }

  duration wake_cost_;
  duration wake_latency_;
  duration budget_;
  duration usual_gap_{};  // of the last waits, which all ended in a sleep
  duration saved_{};
  bool may_try_ = true;
  int trial_ = 0;  // remaining waits of the trial
};

}  // namespace cordma
