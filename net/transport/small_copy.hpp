// Copies of mostly a few bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cordma::transport {

// For the few bytes of a small message, where a call of memcpy costs more than the copy. Copies
// word by word, as the bytes were written: a larger load cannot be forwarded from smaller stores
// that are still in the processor's store buffer.
// Out of line, so that a caller that copies one word needs no registers for the rest.
[[gnu::noinline]] inline void copy_some(std::byte* to, const std::byte* from,
                                        std::size_t n) noexcept {
  const auto word = [=](std::size_t at) {
    std::uint64_t w = 0;
    std::memcpy(&w, from + at, 8);
    std::memcpy(to + at, &w, 8);
  };
  if (n > 64) {
    std::memcpy(to, from, n);
  } else if (n >= 8) {
    // No loop: the compiler would vectorize it.
    switch ((n - 1) / 8) {
      case 7: word(48); [[fallthrough]];
      case 6: word(40); [[fallthrough]];
      case 5: word(32); [[fallthrough]];
      case 4: word(24); [[fallthrough]];
      case 3: word(16); [[fallthrough]];
      case 2: word(8); [[fallthrough]];
      case 1: word(0); [[fallthrough]];
      default: word(n - 8);
    }
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

}  // namespace cordma::transport
