#include "resolved.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace copy {

int open_resolved(int directory, const char* path, int flags, std::uint64_t resolve) noexcept {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = resolve;
  // Whether ".." led out cannot be told where anything on the machine was renamed meanwhile: the kernel asks to try
  // again.
  constexpr int most_tries = 1000;
  long fd = -1;
  for (int tries = 0; tries < most_tries; ++tries) {
    fd = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return fd < 0 ? -errno : static_cast<int>(fd);
}

}  // namespace copy
