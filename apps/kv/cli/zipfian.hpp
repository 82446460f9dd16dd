// Selection of records: some are requested far more often than others, as with real keys.
#pragma once

#include <cmath>
#include <cstdint>

namespace kv::cli {

// Pseudo-random numbers from any seed (SplitMix64: Steele, Lea, Flood, 2014). Not for secrets.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // 0 <= share < 1
  [[nodiscard]] double share() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // 0 <= number < below
  [[nodiscard]] std::uint64_t below(std::uint64_t below) noexcept {
    return static_cast<std::uint64_t>(share() * static_cast<double>(below));
  }

 private:
  std::uint64_t state_;
};

// FNV-1a of the eight bytes of a number, which YCSB uses to scramble ranks.
[[nodiscard]] constexpr std::uint64_t scrambled(std::uint64_t value) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (value & 0xFF)) * 1'099'511'628'211;
    value >>= 8;
  }
  return hash;
}

// Ranks from 0 on; the probability of rank k is proportional to 1 / (k + 1)^theta: Gray et al.,
// "Quickly Generating Billion-Record Synthetic Databases" (1994), as in YCSB. Exact for the first
// two ranks, approximate for the others.
class zipfian {
 public:
  static constexpr double usual_theta = 0.99;
  // Takes time proportional to `items`, unless `zeta` is known. REQUIRES at least one item.
  explicit zipfian(std::uint64_t items, double theta = usual_theta, double zeta = 0) noexcept
      : theta_(theta), alpha_(1 / (1 - theta)), second_(1 + std::pow(0.5, theta)) {
    if (zeta > 0) {
      items_ = items;
      zeta_ = zeta;
    }
    grow(items);
  }

  // Increases the number of items; takes time proportional to the increase.
  void grow(std::uint64_t items) noexcept {
    for (; items_ < items; ++items_) zeta_ += 1 / std::pow(static_cast<double>(items_ + 1), theta_);
    const auto n = static_cast<double>(items_);
    eta_ = (1 - std::pow(2 / n, 1 - theta_)) / (1 - second_ / zeta_);
  }

  // `share` is uniform in [0, 1).
  [[nodiscard]] std::uint64_t rank(double share) const noexcept {
    const double scaled = share * zeta_;
    if (scaled < 1 || items_ == 1) return 0;
    if (scaled < second_) return 1;
    const auto n = static_cast<double>(items_);
    const auto found = static_cast<std::uint64_t>(n * std::pow(eta_ * share - eta_ + 1, alpha_));
    return found < items_ ? found : items_ - 1;
  }
  [[nodiscard]] std::uint64_t items() const noexcept { return items_; }
  [[nodiscard]] double zeta() const noexcept { return zeta_; }

 private:
  double theta_;
  double alpha_;
  double second_;  // zeta of two items
  double zeta_ = 0;
  double eta_ = 0;
  std::uint64_t items_ = 0;
};

// More items than there are records. The ranks are scattered over the records, so that popular
// records are at random positions and the share of the first rank does not depend on the number of
// records (YCSB's ScrambledZipfianGenerator, with its constants).
inline constexpr std::uint64_t scrambled_items = 10'000'000'000;
inline constexpr double scrambled_zeta = 26.46902820178302;

}  // namespace kv::cli
