// Stretches of zeros, of which a file system need keep nothing.
#pragma once

#include <cstddef>
#include <span>

namespace copy {

// What the usual file systems keep, or do not.
inline constexpr std::size_t hole_block = 4096;  // bytes

// Costs next to nothing where it is not so.
[[nodiscard]] bool is_zero(std::span<const std::byte> bytes) noexcept;

// What `bytes` begin with: as many blocks, the last of which may be shorter, as are all zeros, or none of which is.
struct stretch {
  std::size_t bytes = 0;
  enum class of : unsigned char { zeros, data } what = of::data;
};
[[nodiscard]] stretch first_stretch(std::span<const std::byte> bytes) noexcept;

// Into a file in which there is nothing: holes stay where zeros are, so that it may be shorter than `bytes`. 0, or errno.
[[nodiscard]] int write_sparsely(int fd, std::span<const std::byte> bytes) noexcept;

}  // namespace copy
