// Detects a shortage of file descriptors, also in libraries that report other errors.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cerrno>
#include <cstddef>

#include <sys/eventfd.h>

namespace cordma::transport {

[[nodiscard]] inline bool at_descriptor_limit(int os_errno) noexcept {
  return os_errno == EMFILE || os_errno == ENFILE;
}

// Returns the reason for a failed call of a library. libibverbs, librdmacm and the resolver report
// a missing device or host if they could not open a file. Returns EMFILE or ENFILE if hardly any
// descriptor can be opened, else `code`.
[[nodiscard]] inline int reason_behind(int code) noexcept {
  constexpr std::size_t opened_at_once = 4;
  std::array<unique_fd, opened_at_once> tried;
  for (unique_fd& fd : tried) {
    fd = unique_fd(::eventfd(0, EFD_CLOEXEC));
    if (!fd && at_descriptor_limit(errno)) return errno;
  }
  return code;
}

}  // namespace cordma::transport
