// Opens entries below an open directory without following symlinks, and open files again.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>

#include <linux/openat2.h>

namespace copy {

// Does not leave the starting directory, and follows no symlink.
inline constexpr std::uint64_t beneath =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

// Calls openat2() with close-on-exec. The caller owns the descriptor. Returns a negative errno on
// failure.
[[nodiscard]] int open_resolved(int directory, const char* path, int flags,
                                std::uint64_t resolve) noexcept;

// Opens the file of `fd` again with other flags, by its entry in /proc. Returns none on failure and
// sets errno.
[[nodiscard]] cordma::unique_fd open_again(int fd, int flags) noexcept;

}  // namespace copy
