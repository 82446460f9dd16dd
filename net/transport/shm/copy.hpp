// Copying between lists of segments and contiguous bytes.
#pragma once

#include <algorithm>
#include <cordma/net/transport/types.hpp>
#include <cstring>

namespace cordma::transport::shm {

// For the few bytes of a small message, where calling memcpy costs more than copying. Out of line,
// so that who copies a word needs no registers for the rest.
[[gnu::noinline]] inline void copy_some(std::byte* to, const std::byte* from,
                                        std::size_t n) noexcept {
  if (n > 64) {
    std::memcpy(to, from, n);
  } else if (n >= 16) {
    std::size_t i = 0;
    for (; i + 16 < n; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::memcpy(&first, from, 8);
    std::memcpy(&last, from + n - 8, 8);
    std::memcpy(to, &first, 8);
    std::memcpy(to + n - 8, &last, 8);
  } else {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  if (n == 8) {
    std::memcpy(to, from, 8);
  } else {
    copy_some(to, from, n);
  }
}

[[nodiscard, gnu::noinline]] inline std::uint64_t sum_of_lengths(const segment* segments,
                                                                 std::size_t count) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += segments[i].length;
  return sum;
}

[[nodiscard]] inline std::uint64_t total_bytes(const segment* segments,
                                               std::size_t count) noexcept {
  return count == 1 ? segments[0].length : sum_of_lengths(segments, count);
}

// Walks through a list of segments. Stepping past the end is the caller's mistake.
class segment_cursor {
 public:
  segment_cursor(const segment* segments, std::size_t count, std::uint64_t skip = 0) noexcept
      : at_(segments), end_(segments + count) {
    while (at_ != end_ && skip >= at_->length) skip -= (at_++)->length;
    offset_ = static_cast<std::uint32_t>(skip);
  }
  // Segments -> contiguous.
  [[gnu::noinline]] void gather(std::byte* to, std::uint64_t n) noexcept {
    while (n != 0) {
      const std::uint32_t part = step(n);
      copy_bytes(to, at_->addr + offset_, part);
      advance(part);
      to += part;
      n -= part;
    }
  }
  // Contiguous -> segments.
  [[gnu::noinline]] void scatter(const std::byte* from, std::uint64_t n) noexcept {
    while (n != 0) {
      const std::uint32_t part = step(n);
      copy_bytes(at_->addr + offset_, from, part);
      advance(part);
      from += part;
      n -= part;
    }
  }
  // The next contiguous part, of at most n bytes.
  [[nodiscard]] std::span<std::byte> next(std::uint64_t n) noexcept {
    while (at_ != end_ && offset_ == at_->length) advance(0);
    if (at_ == end_) return {};
    const std::uint32_t part = step(n);
    std::span<std::byte> found(at_->addr + offset_, part);
    offset_ += part;
    return found;
  }

 private:
  [[nodiscard]] std::uint32_t step(std::uint64_t n) const noexcept {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, at_->length - offset_));
  }
  void advance(std::uint32_t part) noexcept {
    offset_ += part;
    if (offset_ == at_->length) {
      ++at_;
      offset_ = 0;
    }
  }
  const segment* at_;
  const segment* end_;
  std::uint32_t offset_ = 0;
};

}  // namespace cordma::transport::shm
