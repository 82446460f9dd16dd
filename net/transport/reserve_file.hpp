// Reserves the pages of a shared file when it is created.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>

namespace cordma::transport {

// Extends the file to at least `bytes` bytes with all pages allocated: a shortage is an error now
// and not a SIGBUS later. Returns 0, or errno. The kernel abandons a fallocate() that a signal
// interrupts, and undoes it. So this function allocates piece by piece, and halves the piece while
// signals arrive faster than the kernel can finish it.
[[nodiscard]] inline int reserve_file(int fd, std::size_t bytes) noexcept {
  constexpr std::size_t smallest = 4096;
  std::size_t piece = std::size_t{4} << 20;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(piece, bytes - done);
    if (::fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(now)) == 0) {
      done += now;
    } else if (errno == EINTR) {
      piece = std::max(piece / 2, smallest);
    } else {
      return errno;
    }
  }
  return 0;
}

}  // namespace cordma::transport
