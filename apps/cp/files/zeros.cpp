#include "zeros.hpp"

#include "write_at.hpp"

#include <algorithm>
#include <cstring>

namespace copy {

bool is_zero(std::span<const std::byte> bytes) noexcept {
  // The first byte is 0, and each equals the next one: memcmp() compares many at once.
  return bytes.empty() || (bytes.front() == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

stretch first_stretch(std::span<const std::byte> bytes) noexcept {
  const auto is_hole_at = [&](std::size_t at) {
    return is_zero(bytes.subspan(at, std::min(hole_block, bytes.size() - at)));
  };
  if (bytes.empty()) return {};
  const bool zeros = is_hole_at(0);
  std::size_t end = std::min(hole_block, bytes.size());
  while (end < bytes.size() && is_hole_at(end) == zeros)
    end += std::min(hole_block, bytes.size() - end);
  return {end, zeros ? stretch::of::zeros : stretch::of::data};
}

int write_sparsely(int fd, std::span<const std::byte> bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size();) {
    const stretch next = first_stretch(bytes.subspan(at));
    if (next.what == stretch::of::data) {
      const int why = write_at(fd, bytes.subspan(at, next.bytes), at);
      if (why != 0) return why;
    }
    at += next.bytes;
  }
  return 0;
}

}  // namespace copy
