// The lower bound of every message between two cores: one cache line that moves back and forth.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "batches.hpp"
#include "sides.hpp"

namespace limits {

/// The line that the two threads write alternately; it contains nothing else.
struct alignas(64) turn_line {
  std::atomic<std::uint64_t> turn{0};
};

/// Waits for `seen` and writes `seen + 1`. No pause instruction: this measures a limit.
inline void take_turn(turn_line& line, std::uint64_t seen) noexcept {
  while (line.turn.load(std::memory_order_acquire) != seen) {}
  line.turn.store(seen + 1, std::memory_order_release);
}

/// One-way time of a cache line bounced between two threads. Always polls, independent of
/// `how.wait`.
[[nodiscard]] inline measurement measure_cache_line(const settings& how) {
  turn_line line;
  // No std::jthread: g++ 12 warns at -Os that its stop source may be uninitialized.
  std::thread peer([&line, &how] {
    pin_to(how.peer_cpu);
    for (std::uint64_t step = 0; step < how.steps_in_all(); ++step) {
      take_turn(line, 2 * step + 1);
    }
  });
  pin_to(how.own_cpu);
  std::uint64_t next = 0;
  const auto bounce = [&line, &next](std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      take_turn(line, next);
      next += 2;
    }
    // The batch ends when its last answer has arrived, which the next turn would wait for.
    while (line.turn.load(std::memory_order_acquire) != next) {}
  };
  bounce(how.steps_per_batch());
  measurement m = one_way("cache-line", how, time_batches(how, bounce));
  peer.join();
  return m;
}

}  // namespace limits
