// All samples of a run at three significant digits.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace perf {

// Log-linear: exact below 2048, within 1/1024 above. Recording never allocates. Bound to one thread.
class histogram {
 public:
  histogram() : counts_(index_of(largest) + 1) {}

  void record(std::uint64_t value) noexcept {
    value = value < largest ? value : largest;
    ++counts_[index_of(value)];
    ++count_;
    sum_ += value;
    if (value > max_) max_ = value;
  }
  void clear() noexcept {
    for (std::uint64_t& c : counts_) c = 0;
    count_ = sum_ = max_ = 0;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] double mean() const noexcept {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // The value that `share` (0 ... 1) of all samples do not exceed. Clocks advance in steps of their
  // own, and many samples share a value: those are taken as spread evenly around it.
  [[nodiscard]] double at(double share) const noexcept {
    const double wanted = share * static_cast<double>(count_);
    double below = 0;
    double previous = -1;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const double value = middle_of(i);
      const auto here = static_cast<double>(counts_[i]);
      if (below + here >= wanted) {
        const double lower = value - half_step(previous, value);
        const double upper = value + half_step(value, next_above(i));
        const double found = lower + (upper - lower) * (wanted - below) / here;
        return found < static_cast<double>(max_) ? found : static_cast<double>(max_);
      }
      below += here;
      previous = value;
    }
    return static_cast<double>(max_);
  }

 private:
  static constexpr std::uint64_t largest = std::uint64_t{1} << 42;
  static constexpr unsigned octave_bits = 10;
  static constexpr double longest_step = 32;  // of a clock that is worth using, in its ticks

  [[nodiscard]] static std::size_t index_of(std::uint64_t value) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > octave_bits + 1 ? width - octave_bits - 1 : 0;
    return (std::size_t{shift} << octave_bits) + static_cast<std::size_t>(value >> shift);
  }
  [[nodiscard]] static double middle_of(std::size_t index) noexcept {
    if (index < (std::size_t{2} << octave_bits)) return static_cast<double>(index);
    const std::size_t shift = (index >> octave_bits) - 1;
    const std::uint64_t start = std::uint64_t{index - (shift << octave_bits)} << shift;
    return static_cast<double>(start) + static_cast<double>(std::uint64_t{1} << shift) / 2;
  }

  // Half of the way between two neighbours; none where they are further apart than a clock's steps.
  [[nodiscard]] static double half_step(double lower, double upper) noexcept {
    const double gap = upper - lower;
    return lower >= 0 && gap <= longest_step ? gap / 2 : 0;
  }
  [[nodiscard]] double next_above(std::size_t index) const noexcept {
    for (std::size_t i = index + 1; i < counts_.size(); ++i) {
      if (counts_[i] != 0) return middle_of(i);
    }
    return middle_of(counts_.size());
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace perf
