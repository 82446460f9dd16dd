// Where the sources of a transfer begin: the directories that what is found is relative to, kept open.
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

// Of a source: the directory that its entries' paths begin in, and its name there.
struct origin {
  std::uint32_t number = 0;  // for directory(), find()
  std::string name;          // "." where it is what is in the directory
  [[nodiscard]] bool is_contents() const noexcept { return name == "."; }
  // Whether something at `path` could be of it.
  [[nodiscard]] bool may_hold(std::string_view path) const noexcept {
    return is_contents() || path.substr(0, path.find('/')) == name;
  }
};

// Several threads may use it at once, each with directories of its own, from the last open() on.
class origins {
 public:
  // `follows`: symlinks below a source lead on; else they are ELOOP.
  explicit origins(bool follows) noexcept : follows_(follows) {}
  // For find_parent().
  [[nodiscard]] directory_cache directories() const noexcept {
    return directory_cache(follows_ ? std::optional(resolution::following) : std::nullopt);
  }

  // Opens the directory of a source. Sources of one directory share it. Returns 0, or errno.
  [[nodiscard]] int open(std::string path, bool contents, origin& into);
  [[nodiscard]] int directory(std::uint32_t number) const noexcept {
    return directories_[number].get();
  }

  // The directory `path` has its last name in, as long as `recent`, which is one of directories(), keeps it open; a negative
  // errno where there is none. REQUIRES that `number` came from open().
  [[nodiscard]] int find_parent(std::uint32_t number, std::string_view path,
                                directory_cache& recent) const;
  // What is at `path`, opened with `flags`; the descriptor is the caller's. A negative errno.
  [[nodiscard]] int open_at(std::uint32_t number, const std::string& path, int flags) const;

 private:
  [[nodiscard]] int open_directory(const std::string& path, std::uint32_t& number);

  const bool follows_;
  std::vector<cordma::unique_fd> directories_;
  std::unordered_map<std::string, std::uint32_t> by_path_;
};

}  // namespace copy
