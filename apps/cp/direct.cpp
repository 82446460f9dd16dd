#include "direct.hpp"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/uio.h>

namespace copy {
namespace {

// Of its beginning, which tells for all of it.
bool is_in_cache(int fd) noexcept {
  std::byte first{};
  const iovec one{&first, 1};
  return ::preadv2(fd, &one, 1, 0, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

}  // namespace

direct_way::direct_way(int fd, purpose what) noexcept {
  if (what == purpose::reading && is_in_cache(fd)) return;
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const int how = what == purpose::reading ? O_RDONLY : O_WRONLY;
  fd_.reset(::open(link.data(), how | O_DIRECT | O_NONBLOCK | O_CLOEXEC));
  in_use_ = static_cast<bool>(fd_);
}

}  // namespace copy
