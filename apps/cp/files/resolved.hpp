// What is below a directory that is open, reached without a symlink on the way, and what is open itself.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>

#include <linux/openat2.h>

namespace copy {

// Not above the directory one begins at, and through no symlink at all.
inline constexpr std::uint64_t beneath =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

// openat2(), close-on-exec. The descriptor is the caller's; negative errno where there is none.
[[nodiscard]] int open_resolved(int directory, const char* path, int flags,
                                std::uint64_t resolve) noexcept;

// What is open as `fd` once more, in another way, by its entry in /proc. errno says why there is none.
[[nodiscard]] cordma::unique_fd open_again(int fd, int flags) noexcept;

}  // namespace copy
