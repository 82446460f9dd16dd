// Opens directories below an open one, by names that lead nowhere else.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace copy {

// How a path is resolved: by openat2(); part by part, if openat2() is not available (old kernel,
// seccomp); or through symlinks, wherever they lead.
enum class resolution : unsigned char { at_once, by_parts, following };
[[nodiscard]] resolution resolution_here(int root) noexcept;

// Opens the directory `path` beneath `root` for *at() calls (O_PATH). Returns a negative errno on
// failure: ELOOP if a part is a symlink that is not followed, ENOTDIR if one is not a directory.
// REQUIRES: stays_inside(path).
[[nodiscard]] int open_beneath(int root, const std::string& path, resolution how) noexcept;

// A cache of open directories below roots, which keeps the most recently used ones, because files
// arrive directory by directory. Used by one thread at a time.
class directory_cache {
 public:
  static constexpr std::size_t most = 32;  // directories

  // Without `how` resolution_here() is used.
  explicit directory_cache(std::optional<resolution> how = std::nullopt) noexcept : how_(how) {}
  // As open_beneath(), for the root with this number; "." is the root itself. The directory stays
  // open during the life of the cache, until `most` others were opened or it is forgotten.
  [[nodiscard]] int open(int root, std::uint32_t number, std::string_view path);
  // Drops a directory, and those below it, because the path denotes another directory from now on,
  // or none.
  void forget(std::string_view path) noexcept;

 private:
  struct slot {
    std::uint32_t number = 0;
    std::string path;
    cordma::unique_fd directory;
    std::uint64_t used = 0;  // number of the last call that used it
  };
  std::array<slot, most> slots_;
  std::optional<resolution> how_;
  std::uint64_t calls_ = 0;
};

}  // namespace copy
