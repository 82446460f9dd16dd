// The `access` field of an item: its last use, or its frequency of use; 32 bits, as in Redis.
#pragma once

#include "item.hpp"

#include <cstdint>

namespace kv {

// Policies that do not count store the second of the last use. The others store {minute 16 |
// counter 8}. The counter grows with the logarithm of the uses and decreases by one a minute
// (Redis's LFU: lfu-log-factor 10, lfu-decay-time 1, new keys at 5).
class access_clock {
 public:
  static constexpr unsigned fresh_count = 5;

  [[nodiscard]] static std::uint32_t seconds(unix_ms now) noexcept {
    return static_cast<std::uint32_t>(now / 1000);
  }
  [[nodiscard]] static std::uint32_t fresh(unix_ms now, bool counts) noexcept {
    return counts ? pack(now, fresh_count) : seconds(now);
  }
  // The counter, decayed until now.
  [[nodiscard]] static unsigned count(std::uint32_t access, unix_ms now) noexcept {
    const unsigned counter = access & 0xFF;
    const unsigned minutes = (minute(now) - (access >> 8 & 0xFFFF)) & 0xFFFF;
    return counter > minutes ? counter - minutes : 0;
  }
  // `chance`: 32 random bits.
  [[nodiscard]] static std::uint32_t used(std::uint32_t access, unix_ms now, bool counts,
                                          std::uint32_t chance) noexcept {
    if (!counts) return seconds(now);
    const unsigned before = count(access, now);
    return pack(now, grown(before, chance));
  }

 private:
  static constexpr unsigned log_factor = 10;
  [[nodiscard]] static std::uint32_t minute(unix_ms now) noexcept {
    return static_cast<std::uint32_t>(now / 60'000 & 0xFFFF);
  }
  [[nodiscard]] static std::uint32_t pack(unix_ms now, unsigned counter) noexcept {
    return minute(now) << 8 | counter;
  }
  // Increments with a probability of 1 / (10 times the excess over a new key's count, plus 1).
  [[nodiscard]] static unsigned grown(unsigned counter, std::uint32_t chance) noexcept {
    if (counter == 255) return counter;
    const std::uint64_t base = counter > fresh_count ? counter - fresh_count : 0;
    return std::uint64_t{chance} * (base * log_factor + 1) <= 0xFFFFFFFFU ? counter + 1 : counter;
  }
};

}  // namespace kv
