// Directories below one that is open, by names that lead nowhere else.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace copy {

// How a path is resolved: by openat2(), or, where the kernel or its rules (seccomp) have none, part by part.
enum class resolution : unsigned char { at_once, by_parts };
[[nodiscard]] resolution resolution_here(int root) noexcept;

// The directory `path` beneath `root`, for *at() calls (O_PATH). Negative errno where that fails: ELOOP where any part
// is a symlink, ENOTDIR where one is another thing. REQUIRES stays_inside(path).
[[nodiscard]] int open_beneath(int root, const std::string& path, resolution how) noexcept;

// Directories below a root, the most recently used of them held open. One thread at a time.
class directory_cache {
 public:
  static constexpr std::size_t most = 16;  // directories, beside the root
  // `root` may be for *at() calls alone (O_PATH).
  explicit directory_cache(cordma::unique_fd root) noexcept;

  // As open_beneath(). Open as long as this lives and until `most` others were asked for, or it is forgotten.
  [[nodiscard]] int open(std::string_view path);
  // It, and what is below it, is another directory from now on, or none.
  void forget(std::string_view path) noexcept;

 private:
  struct slot {
    std::string path;
    cordma::unique_fd directory;
    std::uint64_t used = 0;  // the call that used it last
  };
  cordma::unique_fd root_;
  resolution how_;
  std::array<slot, most> slots_;
  std::uint64_t calls_ = 0;
};

}  // namespace copy
