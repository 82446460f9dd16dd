// Standard input, output and error where whoever started the program has closed them.
#pragma once

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace support {

// Before anything else is opened, which would get their numbers, and what is meant for them. Their use fails (EBADF).
inline void hold_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The other way round: not to be read, or written. It gets the lowest number that is free, which is this one.
    [[maybe_unused]] const int held =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // NOLINT
  }
}

}  // namespace support
