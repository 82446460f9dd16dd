#include "direct.hpp"

#include "resolved.hpp"

#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>

namespace copy {
namespace {

// Tests the first byte only, which stands for the complete file.
bool is_in_cache(int fd) noexcept {
  std::byte first{};
  const iovec one{&first, 1};
  return ::preadv2(fd, &one, 1, 0, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

// In tmpfs, which has nothing but the cache, the kernel ignores O_DIRECT.
bool is_in_memory(int fd) noexcept {
  struct statfs s{};
  return ::fstatfs(fd, &s) == 0 && s.f_type == TMPFS_MAGIC;
}

}  // namespace

direct_way::direct_way(int fd, purpose what) noexcept {
  if (what == purpose::reading ? is_in_cache(fd) : is_in_memory(fd)) return;
  const int how = what == purpose::reading ? O_RDONLY : O_WRONLY;
  fd_ = open_again(fd, how | O_DIRECT);
  in_use_ = static_cast<bool>(fd_);
}

}  // namespace copy
