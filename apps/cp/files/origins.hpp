// The open directories that the paths of a transfer's sources are relative to.
#pragma once

#include "beneath.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace copy {

// The origin of a source: the directory of its paths, and its name there.
struct origin {
  std::uint32_t number = 0;  // for directory(), find()
  std::string name;          // "." for the contents of the directory
  [[nodiscard]] bool is_contents() const noexcept { return name == "."; }
  // True if `path` can belong to this source.
  [[nodiscard]] bool may_hold(std::string_view path) const noexcept {
    return is_contents() || path.substr(0, path.find('/')) == name;
  }
};

// After the last open() several threads may use it, each with its own result of directories().
class origins {
 public:
  // `follows`: symlinks below a source are followed; else they fail with ELOOP.
  explicit origins(bool follows) noexcept : follows_(follows) {}
  // Returns a cache for find_parent().
  [[nodiscard]] directory_cache directories() const noexcept {
    return directory_cache(follows_ ? std::optional(resolution::following) : std::nullopt);
  }

  // Opens the directory of a source. Sources of one directory share it. Returns 0, or errno.
  [[nodiscard]] int open(std::string path, bool contents, origin& into);
  [[nodiscard]] int directory(std::uint32_t number) const noexcept {
    return directories_[number].get();
  }

  // Returns the directory that contains the last name of `path`, or a negative errno. It stays open
  // as long as `recent`, a result of directories(), keeps it. REQUIRES: `number` is from open().
  [[nodiscard]] int find_parent(std::uint32_t number, std::string_view path,
                                directory_cache& recent) const;
  // Opens `path` with `flags`; the caller owns the descriptor. Returns a negative errno on failure.
  [[nodiscard]] int open_at(std::uint32_t number, const std::string& path, int flags) const;

 private:
  [[nodiscard]] int open_directory(const std::string& path, std::uint32_t& number);

  const bool follows_;
  std::vector<cordma::unique_fd> directories_;
  std::unordered_map<std::string, std::uint32_t> by_path_;
};

}  // namespace copy
