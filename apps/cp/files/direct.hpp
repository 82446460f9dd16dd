// A second way to a file that is open: past the page cache (O_DIRECT).
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace copy {

// What goes past the page cache, where a long file is neither in it, nor to push out of it what others read: it waits
// for the disk alone, and costs no copy. Shorter files stay in the cache, for whoever reads them next.
class direct_way {
 public:
  static constexpr std::uint64_t smallest = 64U << 20;  // bytes of a file
  enum class purpose : unsigned char { reading, writing };

  direct_way() = default;
  // To what is open as `fd`, by its entry in /proc. None where the file system has no such way, or reading would find
  // the file in the cache.
  direct_way(int fd, purpose what) noexcept;

  // Whether these bytes may go by it: of whole blocks, as to their length, place and memory.
  [[nodiscard]] bool takes(std::span<const std::byte> bytes, std::uint64_t offset) const noexcept {
    constexpr std::uint64_t block = 4096;  // a multiple of what any device asks for
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    return in_use_ && (at | bytes.size() | offset) % block == 0;
  }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  // The file system did not take it after all (EINVAL). It stays open, for those that are under way.
  void give_up() noexcept { in_use_ = false; }

 private:
  cordma::unique_fd fd_;
  bool in_use_ = false;
};

}  // namespace copy
