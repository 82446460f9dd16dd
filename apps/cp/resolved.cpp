#include "resolved.hpp"

#include <algorithm>
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

int recent_directories::find(std::uint32_t number, int base, std::string_view path) {
  const auto known = std::find_if(all_.begin(), all_.end(), [&](const one& d) {
    return d.fd && d.number == number && d.path == path;
  });
  if (known != all_.end()) {
    std::rotate(all_.begin(), known, known + 1);
    return all_.front().fd.get();
  }
  one opened;
  opened.number = number;
  opened.path = path;
  const int fd = open_resolved(base, opened.path.c_str(), O_PATH | O_DIRECTORY, beneath);
  if (fd < 0) return fd;
  opened.fd.reset(fd);
  std::rotate(all_.begin(), all_.end() - 1, all_.end());
  all_.front() = std::move(opened);
  return fd;
}

}  // namespace copy
