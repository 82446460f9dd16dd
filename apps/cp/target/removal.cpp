#include "removal.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::unique_fd;

namespace {

constexpr int reading = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Walks down a tree and keeps the remaining names of each directory. Only the lowest few
// directories are open. A higher one is reopened by "..", and must be the same directory.
class remover {
 public:
  remover(int base, std::string path, target::removal how, const filter* spared,
          std::vector<std::string>& gone, std::vector<problem>& problems,
          target::removal_limit* limit)
      : base_(base),
        path_(std::move(path)),
        how_(how),
        spared_(spared != nullptr && !spared->empty() ? spared : nullptr),
        gone_(gone),
        problems_(problems),
        limit_(limit) {}

  void remove(const std::string& name) {
    remove_one(name);
    while (!levels_.empty()) {
      level& lowest = levels_.back();
      if (lowest.names.empty()) {
        if (!leave()) return;
        continue;
      }
      const std::string next = std::move(lowest.names.back());
      lowest.names.pop_back();
      const std::size_t length = path_.size();
      path_.append("/").append(next);
      if (!remove_one(next)) path_.resize(length);
    }
  }

 private:
  static constexpr std::size_t most_open = 32;  // directories
  struct level {
    std::string name;
    unique_fd directory;
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::string> names;  // remaining names, the next one last
    bool whole = true;               // everything in it was removed
    std::optional<mode_t> mode{};    // its mode before it was made writable
  };

  [[nodiscard]] int here() const noexcept {
    return levels_.empty() ? base_ : levels_.back().directory.get();
  }
  void went() {
    if (limit_ != nullptr) --limit_->left;
    gone_.push_back(path_);
  }
  // True if the limit is reached; the entry stays.
  bool is_too_much() {
    if (limit_ == nullptr || limit_->left != 0) return false;
    ++limit_->stayed;
    leave_whole();
    return true;
  }
  void stays(std::string why) {
    problems_.push_back({problem::kind::failed, path_, std::move(why)});
    leave_whole();
  }
  void leave_whole() {
    if (!levels_.empty()) levels_.back().whole = false;
  }
  void stays(int os_errno) { stays(std::generic_category().message(os_errno)); }

  // REQUIRES: path_ is that of `name`. Returns true for a directory, after which its contents
  // follow.
  bool remove_one(const std::string& name) {
    const bool is_dry = how_ == target::removal::dry;
    struct stat s{};
    if (is_dry || spared_ != nullptr) {
      if (::fstatat(here(), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return missed(errno);
      if (spared_ != nullptr && spared_->excludes(path_, S_ISDIR(s.st_mode))) {
        leave_whole();
        return false;
      }
    }
    if (is_too_much()) return false;
    if (is_dry) {
      if (S_ISDIR(s.st_mode)) return enter(name);
      went();
      return false;
    }
    if (::unlinkat(here(), name.c_str(), 0) == 0) {
      went();
      return false;
    }
    return errno == EISDIR ? enter(name) : missed(errno);
  }

  bool missed(int os_errno) {
    if (os_errno != ENOENT) stays(os_errno);
    return false;
  }

  bool enter(const std::string& name) {
    level next;
    next.name = name;
    next.directory.reset(::openat(here(), name.c_str(), reading));
    const int why = next.directory ? list_names(next.directory.get(), next.names) : errno;
    if (why != 0) {
      // An unreadable directory may be empty.
      if (how_ == target::removal::dry) return missed(why);
      if (::unlinkat(here(), name.c_str(), AT_REMOVEDIR) != 0) return missed(why);
      went();
      return false;
    }
    struct stat s{};
    struct stat above{};
    if (::fstat(next.directory.get(), &s) != 0 || ::fstat(here(), &above) != 0) {
      return missed(errno);
    }
    if (s.st_dev != above.st_dev) {
      stays("another file system is mounted there");
      return false;
    }
    const bool is_closed = (s.st_mode & S_IWUSR) == 0 && s.st_uid == ::geteuid() && s.st_uid != 0;
    if (how_ == target::removal::real && is_closed &&
        ::fchmod(next.directory.get(), (s.st_mode & 07777) | S_IRWXU) == 0) {
      next.mode = s.st_mode & 07777;
    }
    next.device = s.st_dev;
    next.inode = s.st_ino;
    std::reverse(next.names.begin(), next.names.end());
    levels_.push_back(std::move(next));
    if (levels_.size() > most_open) levels_[levels_.size() - 1 - most_open].directory.reset();
    return true;
  }

  // Finishes the lowest directory. Returns false if the directory above it cannot be found; the
  // removal ends.
  bool leave() {
    const level done = std::move(levels_.back());
    levels_.pop_back();
    if (!levels_.empty() && !levels_.back().directory && !find_again(done)) return false;
    if (!done.whole) {
      if (done.mode) ::fchmod(done.directory.get(), *done.mode);
      leave_whole();
    } else if (is_too_much()) {
    } else if (how_ == target::removal::dry ||
               ::unlinkat(here(), done.name.c_str(), AT_REMOVEDIR) == 0) {
      went();
    } else {
      missed(errno);
    }
    if (!levels_.empty()) path_.resize(path_.size() - done.name.size() - 1);
    return true;
  }

  bool find_again(const level& done) {
    level& above = levels_.back();
    struct stat s{};
    above.directory.reset(::openat(done.directory.get(), "..", reading));
    const bool there = above.directory && ::fstat(above.directory.get(), &s) == 0;
    if (there && s.st_dev == above.device && s.st_ino == above.inode) return true;
    stays(there ? "it was moved meanwhile" : std::generic_category().message(errno));
    levels_.clear();
    return false;
  }

  int base_;
  std::string path_;  // of the current entry
  target::removal how_;
  const filter* spared_;
  std::vector<std::string>& gone_;
  std::vector<problem>& problems_;
  target::removal_limit* limit_;
  std::vector<level> levels_;
};

struct closing {
  void operator()(DIR* d) const noexcept { ::closedir(d); }
};

}  // namespace

int list_names(int directory, std::vector<std::string>& into) {
  // A separate descriptor: it has its own offset, and is closed with the DIR.
  unique_fd own(::openat(directory, ".", reading));
  if (!own) return errno;
  const std::unique_ptr<DIR, closing> d(::fdopendir(own.get()));
  if (d == nullptr) return errno;
  (void)own.release();
  for (;;) {
    errno = 0;
    const dirent* const one = ::readdir(d.get());
    if (one == nullptr) break;
    const std::string_view name = one->d_name;
    if (name != "." && name != "..") into.emplace_back(name);
  }
  if (errno != 0) return errno;
  std::sort(into.begin(), into.end());
  return 0;
}

void remove_tree(int directory, const std::string& name, const std::string& path,
                 target::removal how, const filter* spared, std::vector<std::string>& gone,
                 std::vector<problem>& problems, target::removal_limit* limit) {
  remover(directory, path, how, spared, gone, problems, limit).remove(name);
}

bool is_regular(int directory, const std::string& name) noexcept {
  struct stat s{};
  return ::fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode);
}

}  // namespace copy
