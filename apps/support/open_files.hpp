// How many files a program may have open at once.
#pragma once

#include <sys/resource.h>

namespace support {

// Systems start programs with a low limit (1024), for the sake of those that use select(); what is meant is the hard
// one. Where it cannot be had, the limit stays.
inline void raise_open_file_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace support
