// Standard input, output and error if the program was started with them closed.
#pragma once

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace support {

// Call it before anything else is opened: otherwise another file would get these numbers, and the
// data meant for them. Their use fails with EBADF.
inline void hold_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Opened for the opposite direction, so that reading or writing fails. open() returns the
    // lowest free number: this one.
    [[maybe_unused]] const int held =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // NOLINT
  }
}

}  // namespace support
