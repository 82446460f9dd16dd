// Directories below one that is open, reached without a symlink on the way.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <linux/openat2.h>

namespace copy {

// Not above the directory one begins at, and through no symlink at all.
inline constexpr std::uint64_t beneath =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

// openat2(), close-on-exec. The descriptor is the caller's; negative errno where there is none.
[[nodiscard]] int open_resolved(int directory, const char* path, int flags,
                                std::uint64_t resolve) noexcept;

// The directories that were asked for most recently stay open: files come directory by directory.
class recent_directories {
 public:
  static constexpr std::size_t kept = 32;

  // `path` below `base`, which `number` stands for. Stays open until `kept` others were asked for. Negative errno
  // where there is no such directory, or something on the way is none.
  [[nodiscard]] int find(std::uint32_t number, int base, std::string_view path);

 private:
  struct one {
    cordma::unique_fd fd;
    std::uint32_t number = 0;
    std::string path;
  };
  std::array<one, kept> all_;  // most recent first
};

}  // namespace copy
