// True if the kernel, as configured here, offers io_uring: containers often do not.
#pragma once

#include <liburing.h>

namespace cordma::test {

inline constexpr const char* no_io_uring = "the kernel, or its settings, offers no io_uring";

[[nodiscard]] inline bool has_io_uring() {
  io_uring ring{};
  if (::io_uring_queue_init(8, &ring, 0) < 0) return false;
  ::io_uring_queue_exit(&ring);
  return true;
}

}  // namespace cordma::test
