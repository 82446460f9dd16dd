// Signals that end a program where a call would have said what is wrong.
#pragma once

#include <csignal>

namespace support {

// Who reads has gone (EPIPE); a file longer than RLIMIT_FSIZE allows (EFBIG): errors like any other.
inline void ignore_signals_of_errors() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace support
