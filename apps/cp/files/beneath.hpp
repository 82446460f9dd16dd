// Directories below one that is open, by names that lead nowhere else.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace copy {

// How a path is resolved: by openat2(), or, where the kernel or its rules (seccomp) have none, part by part; or through
// symlinks, wherever they lead.
enum class resolution : unsigned char { at_once, by_parts, following };
[[nodiscard]] resolution resolution_here(int root) noexcept;

// The directory `path` beneath `root`, for *at() calls (O_PATH). Negative errno where that fails: ELOOP where any part
// is a symlink that is not followed, ENOTDIR where one is another thing. REQUIRES stays_inside(path).
[[nodiscard]] int open_beneath(int root, const std::string& path, resolution how) noexcept;

// Directories below roots, the most recently used of them held open: files come directory by directory. One thread at a
// time.
class directory_cache {
 public:
  static constexpr std::size_t most = 32;  // directories

  // Without `how` it is resolution_here().
  explicit directory_cache(std::optional<resolution> how = std::nullopt) noexcept : how_(how) {}
  // As open_beneath(), of the root that `number` stands for; "." is the root itself. Open as long as this lives and until
  // `most` others were asked for, or it is forgotten.
  [[nodiscard]] int open(int root, std::uint32_t number, std::string_view path);
  // It, and what is below it, is another directory from now on, or none.
  void forget(std::string_view path) noexcept;

 private:
  struct slot {
    std::uint32_t number = 0;
    std::string path;
    cordma::unique_fd directory;
    std::uint64_t used = 0;  // the call that used it last
  };
  std::array<slot, most> slots_;
  std::optional<resolution> how_;
  std::uint64_t calls_ = 0;
};

}  // namespace copy
