// How many files a program may have open at once.
#pragma once

#include <algorithm>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace support {

// Has the kernel's table of this process reach to `files` descriptors, as far as they may be, and to 65536 at most (8 bytes
// each): while it has one thread.
// The kernel doubles the table as it is needed, and where there are several threads it stops the one that opens until
// none can be reading the old one (synchronize_rcu() in expand_fdtable(), fs/file.c): some 10 ms at each step.
inline void widen_descriptor_table(rlim_t files) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t last = std::min<rlim_t>({files, limit.rlim_cur, 65536});
  if (last == 0) return;
  const int far = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(last - 1));
  if (far >= 0) ::close(far);
}

// Systems start programs with a low limit (1024), for the sake of those that use select(); what is meant is the hard
// one. Where it cannot be had, the limit stays. Before there are threads.
inline void raise_open_file_limit() noexcept {
  constexpr rlim_t at_once = 4096;  // but for daemons with many clients
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  widen_descriptor_table(at_once);
}

}  // namespace support
