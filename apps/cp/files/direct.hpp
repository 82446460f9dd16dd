// A second descriptor of an open file, which bypasses the page cache (O_DIRECT).
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace copy {

// Direct access to a long file that is not in the page cache. It does not displace pages of other
// programs, waits for the disk only, and needs no copy. Shorter files stay in the cache for later
// readers.
class direct_way {
 public:
  static constexpr std::uint64_t smallest = 64U << 20;  // bytes of a file
  enum class purpose : unsigned char { reading, writing };

  direct_way() = default;
  // Opens the file of `fd` again, by its entry in /proc. Not usable if the file system does not
  // support it, or if reading would find the file in the cache.
  direct_way(int fd, purpose what) noexcept;

  // True if these bytes can be transferred directly: length, offset and memory consist of whole
  // blocks.
  [[nodiscard]] bool takes(std::span<const std::byte> bytes, std::uint64_t offset) const noexcept {
    constexpr std::uint64_t block = 4096;  // a multiple of every device's block size
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    return in_use_ && (at | bytes.size() | offset) % block == 0;
  }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  // Called if the file system rejects it after all (EINVAL). The descriptor stays open for
  // operations in flight.
  void give_up() noexcept { in_use_ = false; }

 private:
  cordma::unique_fd fd_;
  bool in_use_ = false;
};

}  // namespace copy
