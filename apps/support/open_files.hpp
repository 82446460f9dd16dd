// Limits of open files.
#pragma once

#include <algorithm>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace support {

// Extends the kernel's descriptor table of this process to `files` descriptors, within the limit,
// and to 65536 at most (8 bytes each). Call it while the process has one thread: the kernel doubles
// the table as needed, and with several threads it blocks the opening thread until none can be
// reading the old table (synchronize_rcu() in expand_fdtable(), fs/file.c), for some 10 ms at each
// step.
inline void widen_descriptor_table(rlim_t files) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t last = std::min<rlim_t>({files, limit.rlim_cur, 65536});
  if (last == 0) return;
  const int far = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(last - 1));
  if (far >= 0) ::close(far);
}

// Raises the soft limit, which is usually low (1024) for programs that use select(), to the hard
// limit. On failure the limit is unchanged. Call it before there are threads.
inline void raise_open_file_limit() noexcept {
  constexpr rlim_t at_once = 4096;  // enough except for daemons with many clients
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  widen_descriptor_table(at_once);
}

}  // namespace support
