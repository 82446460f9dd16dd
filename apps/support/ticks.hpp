// The cheapest available clock, for one reading per round trip: a cycle counter if the processor
// has one of constant rate. Its unit is unknown; a phase calibrates it with CLOCK_MONOTONIC.
#pragma once

#include <chrono>
#include <cstdint>

namespace support {

[[nodiscard]] inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Both clocks, read at the same time.
struct instant {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};
[[nodiscard]] inline instant now() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  return instant{ticks(), ns};
}

// Nanoseconds per tick between two instants.
[[nodiscard]] inline double ns_per_tick(const instant& from, const instant& to) noexcept {
  return static_cast<double>(to.ns - from.ns) / static_cast<double>(to.ticks - from.ticks);
}

}  // namespace support
