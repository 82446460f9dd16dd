// Writes all bytes at an offset of a file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unistd.h>

namespace copy {

// Returns 0, or errno. Makes one call, unless the system writes less.
[[nodiscard]] inline int write_at(int fd, std::span<const std::byte> bytes,
                                  std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

}  // namespace copy
