// Directories below one that is open, reached without a symlink on the way.
#pragma once

#include <cstdint>

#include <linux/openat2.h>

namespace copy {

// Not above the directory one begins at, and through no symlink at all.
inline constexpr std::uint64_t beneath =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

// openat2(), close-on-exec. The descriptor is the caller's; negative errno where there is none.
[[nodiscard]] int open_resolved(int directory, const char* path, int flags,
                                std::uint64_t resolve) noexcept;

}  // namespace copy
