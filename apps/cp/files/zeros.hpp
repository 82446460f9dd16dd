// Runs of zeros, which a file system can store as holes.
#pragma once

#include <cstddef>
#include <span>

namespace copy {

// Block size of common file systems.
inline constexpr std::size_t hole_block = 4096;  // bytes

// Takes almost no time if the bytes are not zero.
[[nodiscard]] bool is_zero(std::span<const std::byte> bytes) noexcept;

// The first run in `bytes`: blocks that are all zeros, or blocks none of which is; the last block
// may be shorter.
struct stretch {
  std::size_t bytes = 0;
  enum class of : unsigned char { zeros, data } what = of::data;
};
[[nodiscard]] stretch first_stretch(std::span<const std::byte> bytes) noexcept;

// Writes to an empty file. Zeros become holes, so the file may be shorter than `bytes`. Returns 0,
// or errno.
[[nodiscard]] int write_sparsely(int fd, std::span<const std::byte> bytes) noexcept;

}  // namespace copy
