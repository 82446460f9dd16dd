// ticks: the processor's counter of time. Reading it takes one instruction; reading the clock takes
// a call.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <cstdint>

namespace cordma {

// Grows at a constant rate that the processor chooses; all threads see the same.
[[nodiscard]] inline std::uint64_t read_ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(real_clock().now().time_since_epoch().count());
#endif
}

// A reading of both; two of them give the rate of the ticks.
struct tick_pair {
  std::uint64_t ticks = 0;
  time_point time{};
  [[nodiscard]] static tick_pair now() noexcept { return {read_ticks(), real_clock().now()}; }
  // Nanoseconds per tick between this reading and a later one.
  [[nodiscard]] double rate_until(const tick_pair& later) const noexcept {
    if (later.ticks <= ticks) return 1;
    return static_cast<double>((later.time - time).count()) /
           static_cast<double>(later.ticks - ticks);
  }
};

// A time in 32 bits, for objects that are too numerous for 64: the upper bits of the ticks, in
// units of some tenths of a millisecond. Two of them are compared by subtracting; ages of more than
// 10 days are measured too short.
using coarse_time = std::uint32_t;
#if defined(__aarch64__)
inline constexpr unsigned coarse_shift = 16;
#else
inline constexpr unsigned coarse_shift = 20;
#endif

}  // namespace cordma
