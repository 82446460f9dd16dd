// Signals that end a program instead of letting a call fail.
#pragma once

#include <csignal>

namespace support {

// A closed reader (EPIPE), and a file above RLIMIT_FSIZE (EFBIG), become ordinary errors of the
// call.
inline void ignore_signals_of_errors() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace support
