// The first names of files with several names.
#pragma once

#include "entry.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include <sys/stat.h>

namespace copy {

// Maps files to their first names. Forgets a file after its last name. Bound to one thread.
class linked_files {
 public:
  // Returns the first name of the file if `path` is a further one; else null, and `path` is the
  // first. The result is valid until the next call. A file that has changed in between counts as
  // another, because its inode number may have been reused.
  [[nodiscard]] const std::string* first_name(const struct stat& of, const std::string& path) {
    const auto [known, is_new] = files_.try_emplace({of.st_dev, of.st_ino});
    file& f = known->second;
    const file_time modified{.s = of.st_mtim.tv_sec,
                             .ns = static_cast<std::uint32_t>(of.st_mtim.tv_nsec)};
    if (is_new || f.size != of.st_size || f.modified != modified) {
      f = {.path = path, .size = of.st_size, .modified = modified, .names_left = of.st_nlink - 1};
      return nullptr;
    }
    if (--f.names_left != 0) {
      last_ = f.path;
    } else {
      last_ = std::move(f.path);
      files_.erase(known);
    }
    return &last_;
  }

 private:
  struct number {
    dev_t device;
    ino_t inode;
    friend bool operator==(const number&, const number&) = default;
  };
  struct hash {
    std::size_t operator()(const number& n) const noexcept {
      constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
      return static_cast<std::size_t>((n.inode ^ (n.device << 48)) * odd);
    }
  };
  struct file {
    std::string path;
    off_t size = 0;
    file_time modified;
    nlink_t names_left = 0;
  };
  std::unordered_map<number, file, hash> files_;
  std::string last_;
};

}  // namespace copy
