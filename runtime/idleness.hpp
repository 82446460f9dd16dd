// idleness: how an adaptive reactor spins while it finds no work, and when it sleeps.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/spin_budget.hpp>
#include <cordma/runtime/timer.hpp>

#include <utility>

namespace cordma::detail {

// Measures the time of a wait only every `turns_per_look_` passes without work, so that work which
// arrives soon is found as early as by polling. This number of passes takes about a sixteenth of a
// wake-up. Bound to one thread.
class idleness {
 public:
  [[nodiscard]] const spin_budget& budget() const noexcept { return spin_; }
  void limit(duration longest_spin) noexcept { spin_ = spin_budget::at_most(longest_spin); }
  // Sets the cost of wake-ups; wake_up_took() keeps it up to date.
  void set_measured(const spin_budget& budget) noexcept {
    spin_ = budget;
    measured_ = true;
  }
  [[nodiscard]] bool measured() const noexcept { return measured_; }
  void wake_up_took(duration cost) noexcept { spin_.wake_up_took(cost); }

  // True if a pass has found nothing since the last work.
  [[nodiscard]] bool has_begun() const noexcept { return turns_ != 0; }
  // Called after a pass without work. True: the reactor sleeps now. `next` is its earliest timer,
  // or null.
  [[nodiscard, gnu::always_inline]] bool ends_in_sleep(clock& time, const timer* next) noexcept {
    // turns_per_look_ is a power of two.
    const bool looks = (++turns_ & (turns_per_look_ - 1)) == 0;
    if (!looks && !slept_ && spin_.get() > duration::zero()) return false;
    const time_point now = time.now();
    if (since_ == never) {
      since_ = now;
      spin_.work_came_at_once(std::exchange(short_waits_, 0));
    } else if (looks && !slept_) {
      adapt_looks(now - looked_at_);
    }
    looked_at_ = now;
    // The reactor's own next timer is known in advance.
    const bool timer_is_near = next != nullptr && next->when() - now < spin_.wake_cost();
    if (now - since_ >= spin_.get() && !timer_is_near) return true;
    relax();
    return false;
  }
  void note_sleep() noexcept { slept_ = true; }
  // Work has arrived. `own_timer`: the only work was a timer of the reactor itself.
  [[gnu::always_inline]] void end(clock& time, bool own_timer) noexcept {
    turns_ = 0;
    if (since_ == never) {
      if (!own_timer) ++short_waits_;
      return;
    }
    const duration gap = time.now() - since_;
    if (own_timer) {
      spin_.own_timer_fired(gap);
    } else if (slept_) {
      spin_.work_came_while_asleep(gap);
    } else {
      spin_.work_came_while_awake(gap);
    }
    since_ = never;
    slept_ = false;
  }

 private:
  static constexpr unsigned first_turns_per_look = 8;
  static constexpr unsigned most_turns_per_look = 64;
  static constexpr int looks_per_wake_up = 16;

  // `took` is the time of the last `turns_per_look_` passes.
  void adapt_looks(duration took) noexcept {
    const duration wanted = spin_.wake_cost() / looks_per_wake_up;
    if (took < wanted / 2 && turns_per_look_ < most_turns_per_look) turns_per_look_ *= 2;
    if (took > wanted && turns_per_look_ > 1) turns_per_look_ /= 2;
  }
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  unsigned turns_per_look_ = first_turns_per_look;
  unsigned turns_ = 0;           // passes without work
  unsigned short_waits_ = 0;     // waits that ended before their time was measured
  time_point looked_at_{never};  // the last measurement
  time_point since_{never};      // start of the wait; never: not measured yet
  bool slept_ = false;           // since `since_`
  bool measured_ = false;
  spin_budget spin_;
};

}  // namespace cordma::detail
