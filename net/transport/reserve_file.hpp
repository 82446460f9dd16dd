// Room for a shared file, taken when it is made.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>

namespace cordma::transport {

// Makes the file at least so long, with all of its pages there: what the machine cannot give is an error now and not a
// SIGBUS later. Returns 0, or errno. The kernel gives up a call that a signal interrupts, and takes back all that it
// did: so it is asked piece by piece, and for smaller ones as long as signals come faster than it can serve them.
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
