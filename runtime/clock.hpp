// The one source of time. All waiting code in cordma reads the clock of its reactor, so that the
// same code runs in real and in virtual time.
#pragma once

#include <chrono>
#include <cstdint>

namespace cordma {

using duration = std::chrono::nanoseconds;
struct time_base {
  using duration = cordma::duration;
  using rep = duration::rep;
  using period = duration::period;
};
// Nanoseconds since an arbitrary start; never goes back.
using time_point = std::chrono::time_point<time_base, duration>;
inline constexpr time_point never = time_point::max();
// `from + by`, or `never` if that is beyond the end of time.
[[nodiscard]] constexpr time_point after(time_point from, duration by) noexcept {
  if (by > duration::zero() && from > never - by) return never;
  return from + by;
}

class clock {
 public:
  virtual ~clock() = default;
  [[nodiscard]] virtual time_point now() noexcept = 0;
  // Virtual clocks jump to `when` (no earlier than now) and return true; real ones return false.
  virtual bool advance_to(time_point when) noexcept = 0;
};

// CLOCK_MONOTONIC. Thread-safe; lives as long as the program.
[[nodiscard]] clock& real_clock() noexcept;

// Stands still until it is advanced; a reactor that has nothing to run advances it to its next
// timer. Bound to one thread.
class virtual_clock final : public clock {
 public:
  explicit virtual_clock(time_point start = time_point{}) noexcept : now_(start) {}
  [[nodiscard]] time_point now() noexcept override { return now_; }
  bool advance_to(time_point when) noexcept override {
    if (when > now_) now_ = when;
    return true;
  }

 private:
  time_point now_;
};

}  // namespace cordma
