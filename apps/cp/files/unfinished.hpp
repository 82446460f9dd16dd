// --inplace: how a file says that it is not whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace copy {

// What a file ends with, behind the bytes that it is to have, from before the first of them is written until all are
// there: so it has neither the length nor the time of its source, however it was cut off. In which order the disk has it all
// is for the caller.
inline constexpr std::string_view unfinished_mark =
    "\ncordma-cp --inplace: this file is not whole\n";

// Marks a file that is to have `size` bytes, and is open for writing.
class marking {
 public:
  marking(int fd, std::uint64_t size) noexcept : fd_(fd), size_(size) {}
  // From now on it ends with the mark. 0, or errno: undone.
  [[nodiscard]] int begin() noexcept;
  // What is behind `size` bytes is the mark alone from now on, and until then it has ended with a mark at every moment. 0, or
  // errno: undone.
  [[nodiscard]] int end() noexcept;
  // Its bytes are what they were, as far as the file can be read; its times are for the caller to put back.
  void undo() noexcept;

 private:
  struct kept {
    std::uint64_t at = 0;
    std::size_t size = 0;
    std::array<char, unfinished_mark.size()> bytes{};
  };
  void keep(kept& what, std::uint64_t at) noexcept;

  int fd_;
  std::uint64_t size_;
  std::uint64_t length_ = 0;  // before
  kept first_;                // where the mark is in the end
  kept last_;                 // where it is at first
};
// All bytes are there: the mark goes. 0, or errno.
[[nodiscard]] int cut_to(int fd, std::uint64_t size) noexcept;
// Whether a file that is open for reading ends with the mark.
[[nodiscard]] bool is_unfinished(int fd) noexcept;

}  // namespace copy
