// All samples of a run, with three significant digits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace support {

// Log-linear: exact below 2048, within 1/1024 above. For times in cycles of 1 GHz or more, this
// covers less than 1 ns to more than 100 s. Recording never allocates. Bound to one thread.
class histogram {
 public:
  histogram() : counts_(index_of(largest) + 1) {}

  void record(std::uint64_t value) noexcept {
    const std::uint64_t counted = value < largest ? value : largest;
    ++counts_[index_of(counted)];
    ++count_;
    sum_ += value;
    const auto v = static_cast<double>(value);
    squares_ += v * v;
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
  }
  void clear() noexcept {
    for (std::uint64_t& c : counts_) c = 0;
    count_ = sum_ = max_ = 0;
    min_ = ~std::uint64_t{0};
    squares_ = 0;
  }
  void add(const histogram& more) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += more.counts_[i];
    count_ += more.count_;
    sum_ += more.sum_;
    squares_ += more.squares_;
    if (more.max_ > max_) max_ = more.max_;
    if (more.min_ < min_) min_ = more.min_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  // Exact, as are mean and deviation.
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] double mean() const noexcept {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // The standard deviation.
  [[nodiscard]] double deviation() const noexcept {
    if (count_ < 2) return 0;
    const double variance = squares_ / static_cast<double>(count_) - mean() * mean();
    return variance > 0 ? std::sqrt(variance) : 0;
  }
  // The value that `share` (0 ... 1) of all samples do not exceed. Clocks may advance in steps of
  // several ticks, so that many samples have the same value: these are treated as spread evenly
  // around it, within half a step.
  [[nodiscard]] double at(double share) const noexcept {
    if (share >= 1) return static_cast<double>(max_);
    const double wanted = share * static_cast<double>(count_);
    double below = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const auto here = static_cast<double>(counts_[i]);
      if (below + here >= wanted) {
        const double half = i < exact ? step() / 2 : width_of(i) / 2;
        const double found = middle_of(i) - half + 2 * half * (wanted - below) / here;
        return std::clamp(found, static_cast<double>(min_), static_cast<double>(max_));
      }
      below += here;
    }
    return static_cast<double>(max_);
  }
  // Number of samples beyond at(share): the basis of a percentile.
  [[nodiscard]] std::uint64_t beyond(double share) const noexcept {
    return count_ -
           static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_) - 1e-9));
  }
  // Shares and their values: from 0 up, in ten steps to 1/2, ten more to 3/4, and so on while there
  // are samples beyond; then 1 and the maximum.
  [[nodiscard]] std::vector<std::pair<double, double>> curve() const {
    constexpr int steps = 10;
    std::vector<std::pair<double, double>> points;
    for (double left = 1; left * static_cast<double>(count_) >= 1; left /= 2) {
      for (int k = 0; k < steps; ++k) {
        const double share = 1 - left + left / 2 * k / steps;
        if (beyond(share) == 0) break;
        points.emplace_back(share, at(share));
      }
    }
    if (count_ != 0) points.emplace_back(1, static_cast<double>(max_));
    return points;
  }

 private:
  static constexpr std::uint64_t largest = std::uint64_t{1} << 42;
  static constexpr unsigned octave_bits = 10;
  static constexpr std::size_t exact = std::size_t{2} << octave_bits;  // limit of exact counters

  [[nodiscard]] static std::size_t index_of(std::uint64_t value) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > octave_bits + 1 ? width - octave_bits - 1 : 0;
    return (std::size_t{shift} << octave_bits) + static_cast<std::size_t>(value >> shift);
  }
  [[nodiscard]] static double middle_of(std::size_t index) noexcept {
    if (index < exact) return static_cast<double>(index);
    const std::size_t shift = (index >> octave_bits) - 1;
    const std::uint64_t start = std::uint64_t{index - (shift << octave_bits)} << shift;
    return static_cast<double>(start) + static_cast<double>(std::uint64_t{1} << shift) / 2;
  }

  [[nodiscard]] static double width_of(std::size_t index) noexcept {
    return static_cast<double>(std::uint64_t{1} << ((index >> octave_bits) - 1));
  }

  // Step of the clock, in ticks: the common divisor of all short samples; 1 if there are too few
  // different samples.
  [[nodiscard]] double step() const noexcept {
    constexpr int enough = 16;
    std::size_t common = 0;
    int different = 0;
    for (std::size_t i = 1; i < exact; ++i) {
      if (counts_[i] == 0) continue;
      common = std::gcd(common, i);
      ++different;
    }
    return different < enough ? 1 : static_cast<double>(common);
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  double squares_ = 0;
  std::uint64_t max_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
};

}  // namespace support
