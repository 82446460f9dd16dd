// The only source of randomness of a simulated network: xoshiro256** seeded by splitmix64, and no
// distribution of the standard library, whose results differ between implementations.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <array>
#include <bit>
#include <cstdint>

namespace cordma::transport::sim {

// The finisher of splitmix64: a bijection that spreads every bit.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

class random {
 public:
  explicit constexpr random(std::uint64_t seed) noexcept {
    for (std::uint64_t& s : state_) s = mix(seed += 0x9E3779B97F4A7C15ULL);
  }
  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return out;
  }
  [[nodiscard]] constexpr bool chance(double probability) noexcept {
    if (probability <= 0) return false;
    if (probability >= 1) return true;
    return (next() >> 32) < static_cast<std::uint64_t>(probability * 4294967296.0);
  }
  // 0 ... most
  [[nodiscard]] constexpr duration up_to(duration most) noexcept {
    if (most <= duration::zero()) return duration::zero();
    return duration(
        static_cast<duration::rep>(next() % (static_cast<std::uint64_t>(most.count()) + 1)));
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace cordma::transport::sim
