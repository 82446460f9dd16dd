// loop_clock: the clock of a reactor, and a coarse time that takes one decrement per pass.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/ticks.hpp>

#include <cstdint>

namespace cordma::detail {

// Bound to one thread.
class loop_clock {
 public:
  // Null: real_clock(). The clock must outlive this object.
  explicit loop_clock(clock* time) noexcept
      : clock_(time != nullptr ? time : &real_clock()),
        real_(clock_ == &real_clock()),
        made_at_(tick_pair::now()) {
    read_coarse();
  }

  [[nodiscard]] clock& get() const noexcept { return *clock_; }
  [[nodiscard]] time_point now() const noexcept { return clock_->now(); }
  // False for a virtual clock.
  [[nodiscard]] bool real() const noexcept { return real_; }

  // Reads the coarse time in one of passes_per_reading passes.
  void count_pass() noexcept {
    if (--passes_left_ == 0) [[unlikely]]
      read_coarse();
  }
  void read_coarse() noexcept {
    passes_left_ = passes_per_reading;
    coarse_ = static_cast<coarse_time>(fine_now() >> coarse_shift);
  }
  // The coarse time of the last reading.
  [[nodiscard]] coarse_time coarse() const noexcept { return coarse_; }
  // The time since `then`, at least.
  [[nodiscard]] duration since(coarse_time then) const noexcept {
    const double rate = real_ ? made_at_.rate_until(tick_pair::now()) : 1;
    const coarse_time passed = static_cast<coarse_time>(fine_now() >> coarse_shift) - then;
    return duration(static_cast<std::int64_t>(
        static_cast<double>(std::uint64_t{passed} << coarse_shift) * rate));
  }

 private:
  static constexpr std::uint16_t passes_per_reading = 1024;

  // In ticks, or in nanoseconds of virtual time.
  [[nodiscard]] std::uint64_t fine_now() const noexcept {
    if (real_) [[likely]]
      return read_ticks();
    return static_cast<std::uint64_t>(clock_->now().time_since_epoch().count());
  }

  clock* clock_;
  bool real_;
  std::uint16_t passes_left_ = 1;
  coarse_time coarse_ = 0;
  tick_pair made_at_;
};

}  // namespace cordma::detail
