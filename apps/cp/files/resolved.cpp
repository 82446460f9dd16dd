#include "resolved.hpp"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace copy {

int open_resolved(int directory, const char* path, int flags, std::uint64_t resolve) noexcept {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = resolve;
  // The kernel returns EAGAIN if any rename on the machine prevents the check that ".." did not
  // lead out.
  constexpr int most_tries = 1000;
  long fd = -1;
  for (int tries = 0; tries < most_tries; ++tries) {
    fd = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return fd < 0 ? -errno : static_cast<int>(fd);
}

cordma::unique_fd open_again(int fd, int flags) noexcept {
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  return cordma::unique_fd(::open(link.data(), flags | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace copy
