#include "whole.hpp"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace copy {

int write_to_end(int fd, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
    if (n < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int read_to_end(int fd, std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::read(fd, into.data() + done, into.size() - done);
    if (n == 0) break;
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLIN, 0};
      ::poll(&ready, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return -errno;
    }
  }
  return static_cast<int>(done);
}

}  // namespace copy
