// Unpredictable random bits for keys and tokens.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cerrno>
#include <cstddef>
#include <span>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace cordma::transport {

// Returns 0, or errno. Reads /dev/urandom if a sandbox forbids getrandom(2).
[[nodiscard]] inline int draw_random(std::span<std::byte> into) noexcept {
  bool has_call = true;
  unique_fd device;
  while (!into.empty()) {
    const ssize_t n = has_call ? ::getrandom(into.data(), into.size(), 0)
                               : ::read(device.get(), into.data(), into.size());
    if (n > 0) {
      into = into.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return EIO;
    } else if (errno != EINTR) {
      const int refused = errno;
      if (!has_call) return refused;
      has_call = false;
      device = unique_fd(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
      if (!device) return refused;
    }
  }
  return 0;
}

}  // namespace cordma::transport
