// The keys and values of a benchmark.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kv::cli {

// "user" and twelve digits: 16 bytes.
class record_key {
 public:
  explicit record_key(std::uint64_t record) noexcept {
    for (std::size_t i = text_.size(); i > prefix.size(); --i) {
      text_[i - 1] = static_cast<char>('0' + record % 10);
      record /= 10;
    }
    std::ranges::copy(prefix, text_.begin());
  }
  [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_.size()}; }

 private:
  static constexpr std::string_view prefix = "user";
  std::array<char, 16> text_;
};

// A value begins with the number of its record, which identifies a value of another record. A
// counter of this client follows; the rest is incompressible.
class record_values {
 public:
  record_values(std::size_t bytes, std::uint64_t seed) : text_(bytes, '\0') {
    for (char& c : text_) {
      seed = seed * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
      c = static_cast<char>(seed >> 56);
    }
  }
  // Valid until the next call.
  [[nodiscard]] std::string_view next(std::uint64_t record) noexcept {
    ++count_;
    put(0, record);
    put(sizeof record, count_);
    return text_;
  }
  [[nodiscard]] static bool is_of(std::uint64_t record, std::string_view value) noexcept {
    return std::memcmp(value.data(), &record, std::min(value.size(), sizeof record)) == 0;
  }

 private:
  void put(std::size_t at, std::uint64_t number) noexcept {
    if (at >= text_.size()) return;
    std::memcpy(text_.data() + at, &number, std::min(text_.size() - at, sizeof number));
  }
  std::string text_;
  std::uint64_t count_ = 0;
};

}  // namespace kv::cli
