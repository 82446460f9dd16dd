// --inplace: how a file says that it is not whole.
#pragma once

#include <cstdint>
#include <string_view>

namespace copy {

// What a file ends with, behind the bytes that it is to have, from before the first of them is written until all are
// there: so it has neither the length nor the time of its source, however it was cut off.
inline constexpr std::string_view unfinished_mark =
    "\ncordma-cp --inplace: this file is not whole\n";

// The file is to have `size` bytes: what is behind them becomes the mark. 0, or errno: then its
// bytes are what they were, as far as the file can be read, and its length and times are for the caller to put back.
[[nodiscard]] int mark_unfinished(int fd, std::uint64_t size) noexcept;
// All bytes are there: the mark goes. 0, or errno.
[[nodiscard]] int cut_to(int fd, std::uint64_t size) noexcept;
// Whether a file that is open for reading ends with the mark.
[[nodiscard]] bool is_unfinished(int fd) noexcept;

}  // namespace copy
