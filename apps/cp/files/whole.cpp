#include "whole.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {
namespace {

// Returns false if it is canceled before.
bool wait_for(int fd, short what, const std::atomic<bool>& canceled) noexcept {
  constexpr int look_ms = 100;
  for (;;) {
    if (canceled) return false;
    pollfd ready{fd, what, 0};
    const int n = ::poll(&ready, 1, look_ms);
    if (n > 0 || (n < 0 && errno != EINTR)) return true;  // or the call itself reports the error
  }
}

// Returns the number of bytes that one write can take without waiting for more space.
std::size_t most_at_once(int fd) noexcept {
  struct stat s{};
  return ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? SSIZE_MAX : PIPE_BUF;
}

}  // namespace

int write_to_end(int fd, std::span<const std::byte> bytes,
                 const std::atomic<bool>& canceled) noexcept {
  const std::size_t most = most_at_once(fd);
  while (!bytes.empty()) {
    if (!wait_for(fd, POLLOUT, canceled)) return ECANCELED;
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), most));
    if (n >= 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

int read_to_end(int fd, std::span<std::byte> into, const std::atomic<bool>& canceled) noexcept {
  std::size_t done = 0;
  while (done < into.size()) {
    if (!wait_for(fd, POLLIN, canceled)) return -ECANCELED;
    const ssize_t n = ::read(fd, into.data() + done, into.size() - done);
    if (n == 0) break;
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR && errno != EAGAIN) return -errno;
  }
  return static_cast<int>(done);
}

}  // namespace copy
