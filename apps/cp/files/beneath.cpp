#include "beneath.hpp"

#include "resolved.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::unique_fd;

namespace {

constexpr int directory_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

int open_at_once(int root, const char* path) noexcept {
  return open_resolved(root, path, directory_flags, beneath);
}

// Opens one name, not a path. With O_DIRECTORY a symlink fails with ENOTDIR, as a file does;
// fstatat() distinguishes them.
int open_part_of_path(int directory, const char* name) noexcept {
  const int fd = ::openat(directory, name, directory_flags | O_NOFOLLOW);
  if (fd >= 0) return fd;
  const int why = errno;
  struct stat s{};
  if (why == ENOTDIR && ::fstatat(directory, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(s.st_mode)) {
    return -ELOOP;
  }
  return -why;
}

}  // namespace

resolution resolution_here(int root) noexcept {
  const unique_fd fd(open_at_once(root, "."));
  return fd ? resolution::at_once : resolution::by_parts;
}

int open_beneath(int root, const std::string& path, resolution how) noexcept {
  if (how == resolution::at_once) return open_at_once(root, path.c_str());
  if (how == resolution::following) return open_resolved(root, path.c_str(), directory_flags, 0);
  unique_fd at;
  std::array<char, 256> name{};  // NAME_MAX and the terminating 0
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end - begin >= name.size()) return -ENAMETOOLONG;
    *std::copy(path.data() + begin, path.data() + end, name.data()) = '\0';
    unique_fd next(open_part_of_path(at ? at.get() : root, name.data()));
    if (!next) return next.get();
    at = std::move(next);
    begin = end + 1;
  }
  return at.release();
}

int directory_cache::open(int root, std::uint32_t number, std::string_view path) {
  if (path == ".") return root;
  slot* oldest = slots_.data();
  for (slot& s : slots_) {
    if (s.directory && s.number == number && s.path == path) {
      s.used = ++calls_;
      return s.directory.get();
    }
    if (s.used < oldest->used) oldest = &s;
  }
  if (!how_) how_ = resolution_here(root);
  std::string name(path);
  unique_fd opened(open_beneath(root, name, *how_));
  if (!opened) return opened.get();
  *oldest = {number, std::move(name), std::move(opened), ++calls_};
  return oldest->directory.get();
}

void directory_cache::forget(std::string_view path) noexcept {
  for (slot& s : slots_) {
    const std::string_view held = s.path;
    if (!held.starts_with(path)) continue;
    if (held.size() == path.size() || held[path.size()] == '/') s = {};
  }
}

}  // namespace copy
