// Copying between lists of segments and contiguous bytes.
#pragma once

#include <algorithm>
#include <cordma/net/transport/small_copy.hpp>
#include <cordma/net/transport/types.hpp>

namespace cordma::transport::shm {

// Soon this line is written: it is taken from whoever has it. Any address will do.
inline void prefetch_for_writing(const std::byte* line) noexcept {
#if defined(__x86_64__)
  // For any x86-64 the builtin prefetches for reading, which leaves the line shared. A processor without this
  // instruction does nothing.
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
