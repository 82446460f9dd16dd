// Copies between lists of segments and contiguous bytes.
#pragma once

#include <algorithm>
#include <cordma/net/transport/small_copy.hpp>
#include <cordma/net/transport/types.hpp>

namespace cordma::transport::shm {

// Prefetches a line that is written soon: takes it away from other caches. Any address is allowed.
inline void prefetch_for_writing(const std::byte* line) noexcept {
#if defined(__x86_64__)
  // For a generic x86-64 the builtin prefetches for reading, which leaves the line shared.
  // Processors without prefetchw ignore it.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
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

// Walks through a list of segments. REQUIRES that the caller does not step past the end.
class segment_cursor {
 public:
  segment_cursor(const segment* segments, std::size_t count, std::uint64_t skip = 0) noexcept
      : at_(segments), end_(segments + count) {
    while (at_ != end_ && skip >= at_->length) skip -= (at_++)->length;
    offset_ = static_cast<std::uint32_t>(skip);
  }
  // Copies from the segments to contiguous bytes.
  [[gnu::noinline]] void gather(std::byte* to, std::uint64_t n) noexcept {
    while (n != 0) {
      const std::uint32_t part = step(n);
      copy_bytes(to, at_->addr + offset_, part);
      advance(part);
      to += part;
      n -= part;
    }
  }
  // Copies from contiguous bytes to the segments.
  [[gnu::noinline]] void scatter(const std::byte* from, std::uint64_t n) noexcept {
    while (n != 0) {
      const std::uint32_t part = step(n);
      copy_bytes(at_->addr + offset_, from, part);
      advance(part);
      from += part;
      n -= part;
    }
  }
  // Returns the next contiguous part, of at most n bytes.
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
