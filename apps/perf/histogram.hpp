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
  // The smallest value that at least `share` (0 ... 1) of all samples do not exceed.
  [[nodiscard]] double at(double share) const noexcept {
    const double wanted = share * static_cast<double>(count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (counts_[i] != 0 && static_cast<double>(seen) >= wanted) {
        const double middle = middle_of(i);
        return middle < static_cast<double>(max_) ? middle : static_cast<double>(max_);
      }
    }
    return static_cast<double>(max_);
  }

 private:
  static constexpr std::uint64_t largest = std::uint64_t{1} << 42;
  static constexpr unsigned octave_bits = 10;

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

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace perf
