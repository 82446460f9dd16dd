// --inplace: the mark of an incomplete file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace copy {

// The end of an incomplete file, behind its final bytes. It is present from before the first byte
// is written until all are written, so an interrupted file has neither the length nor the time of
// its source. The caller is responsible for the order of writes to the disk.
inline constexpr std::string_view unfinished_mark =
    "\ncordma-cp --inplace: this file is not whole\n";

// Marks a file with the final size `size`, open for writing.
class marking {
 public:
  marking(int fd, std::uint64_t size) noexcept : fd_(fd), size_(size) {}
  // Adds the mark at the end. Returns 0, or errno; on failure the file is restored.
  [[nodiscard]] int begin() noexcept;
  // Leaves only the mark behind the first `size` bytes; until then the file ends with a mark at
  // every moment. Returns 0, or errno; on failure the file is restored.
  [[nodiscard]] int end() noexcept;
  // Restores the bytes, if the file can be read. The caller restores its times.
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
  std::uint64_t length_ = 0;  // before the mark
  kept first_;                // bytes at the final position of the mark
  kept last_;                 // bytes at the first position of the mark
};
// Removes the mark of a complete file. Returns 0, or errno.
[[nodiscard]] int cut_to(int fd, std::uint64_t size) noexcept;
// True if a file, open for reading, ends with the mark.
[[nodiscard]] bool is_unfinished(int fd) noexcept;

}  // namespace copy
