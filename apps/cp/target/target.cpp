#include "target.hpp"

#include "../files/beneath.hpp"
#include "removal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::failure;
using cordma::result;
using cordma::unique_fd;

namespace {

// Reads the umask without changing it, because other threads would see the change.
std::uint32_t current_umask() noexcept {
  std::array<char, 1024> text{};
  const unique_fd status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const ssize_t length = status ? ::read(status.get(), text.data(), text.size()) : -1;
  const std::string_view all(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  constexpr std::string_view label = "\nUmask:\t";
  if (const std::size_t at = all.find(label); at != std::string_view::npos) {
    const char* const digits = all.data() + at + label.size();
    std::uint32_t mask = 0;
    if (std::from_chars(digits, all.data() + all.size(), mask, 8).ec == std::errc{}) return mask;
  }
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

int open_root(const std::string& root) noexcept {
  const int fd = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}

// Returns 0, or errno.
int make_with_parents(const std::string& root) {
  for (std::size_t end = 0; end < root.size();) {
    end = std::min(root.find('/', end + 1), root.size());
    if (::mkdir(root.substr(0, end).c_str(), 0777) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

}  // namespace

struct target::state {
  unique_fd root;
  std::uint32_t mask = 0;  // umask
  bool is_new = false;
  directory_cache directories{};
  [[nodiscard]] int open(std::string_view path) { return directories.open(root.get(), 0, path); }
};

target::target(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
target::target(target&&) noexcept = default;
target& target::operator=(target&&) noexcept = default;
target::~target() = default;

result<target> target::open(const std::string& root, missing m) {
  int fd = open_root(root);
  const bool is_new = fd == -ENOENT && m == missing::is_made;
  if (is_new) {
    if (const int why = make_with_parents(root); why != 0) {
      return failure::from_os(why, {"making the directory ", root});
    }
    fd = open_root(root);
  }
  if (fd < 0) return failure::from_os(-fd, {"opening the directory ", root});
  return target(std::unique_ptr<state>(
      new state{.root = unique_fd(fd), .mask = current_umask(), .is_new = is_new}));
}

result<target> target::clone() {
  const int fd = ::fcntl(state_->root.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return failure::from_os(errno, "fcntl");
  return target(std::unique_ptr<state>(new state{.root = unique_fd(fd), .mask = state_->mask}));
}

result<target::position> target::find(const std::string& path) {
  CORDMA_REQUIRE(stays_inside(path));
  const std::size_t slash = path.rfind('/');
  const bool at_top = slash == std::string::npos;
  const std::string_view parent = at_top ? "." : std::string_view(path).substr(0, slash);
  const int directory = state_->open(parent);
  if (directory < 0) return failure::from_os(-directory, {"opening the directory ", parent});
  return position{.directory = directory, .name = path.c_str() + (at_top ? 0 : slash + 1)};
}

result<std::optional<struct stat>> target::look(const std::string& path) {
  const auto is_missing = [](int why) { return why == ENOENT || why == ENOTDIR; };
  const auto at = find(path);
  if (!at) {
    if (is_missing(at.why().os_errno())) return std::optional<struct stat>();
    return at.why();
  }
  struct stat s{};
  if (::fstatat(at->directory, at->name, &s, AT_SYMLINK_NOFOLLOW) == 0) return std::optional(s);
  if (is_missing(errno)) return std::optional<struct stat>();
  return failure::from_os(errno, {"looking at ", path});
}

result<unique_fd> target::open_file(const std::string& path) {
  const auto at = find(path);
  if (!at) return at.why();
  constexpr int how = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  unique_fd fd(::openat(at->directory, at->name, how));
  struct stat s{};
  if (!fd || ::fstat(fd.get(), &s) != 0) return failure::from_os(errno, {"opening ", path});
  if (!S_ISREG(s.st_mode)) return failure::from_os(EINVAL, {"opening ", path});
  return fd;
}

result<void> target::make_directory(const std::string& path, std::uint32_t mode) {
  const auto at = find(path);
  if (!at) return at.why();
  constexpr int most_tries = 3;  // another process may create something there
  for (int tries = 0; tries < most_tries; ++tries) {
    if (::mkdirat(at->directory, at->name, (mode & 0777) | S_IRWXU) == 0) return {};
    if (errno != EEXIST) break;
    struct stat s{};
    if (::fstatat(at->directory, at->name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode)) {
      return {};
    }
    if (::unlinkat(at->directory, at->name, 0) != 0 && errno != ENOENT) break;
    errno = EEXIST;
  }
  return failure::from_os(errno, {"making the directory ", path});
}

result<void> target::replace(const std::string& path, const position& at, const char* from) {
  const auto rename = [&] {
    return ::renameat(at.directory, from, at.directory, at.name) == 0 ? 0 : errno;
  };
  int why = rename();
  if (why == EISDIR) {
    why = give_way(path, at);
    if (why == 0) why = rename();
  }
  if (why != 0) return failure::from_os(why, {"replacing ", path});
  return {};
}

int target::give_way(const std::string& path, const position& at) noexcept {
  if (::unlinkat(at.directory, at.name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR) return errno;
  if (::unlinkat(at.directory, at.name, AT_REMOVEDIR) != 0) {
    return errno == ENOTEMPTY || errno == EEXIST ? EISDIR : errno;
  }
  state_->directories.forget(path);
  return 0;
}

bool target::is_new() const noexcept { return state_->is_new; }
std::uint32_t target::umask_here() const noexcept { return state_->mask; }

std::vector<std::string> target::remove_others(const std::string& directory,
                                               const std::vector<std::string_view>& names,
                                               removal how, std::vector<problem>& problems,
                                               const filter* spared, removal_limit* limit,
                                               const path_predicate& is_whole) {
  CORDMA_REQUIRE(stays_inside(directory));
  std::vector<std::string> gone;
  std::vector<std::string> found;
  const int fd = state_->open(directory);
  const int why = fd < 0 ? -fd : list_names(fd, found);
  if (why != 0) {
    // A dry run neither creates the directory, nor removes an entry in its place.
    const bool none = why == ENOENT || (how == removal::dry && (why == ENOTDIR || why == ELOOP));
    if (!none) {
      problems.push_back({problem::kind::failed, directory, std::generic_category().message(why)});
    }
    return gone;
  }
  const std::unordered_set<std::string_view> stay(names.begin(), names.end());
  // Work names of `names`, with the name they belong to; filled when the first is found.
  std::unordered_map<std::string, std::string> work;
  const auto path_of = [&directory](const std::string& name) {
    return directory == "." ? name : directory + '/' + name;
  };
  for (const std::string& name : found) {
    if (stay.contains(name)) continue;
    if (is_work_name(name) && is_regular(fd, name)) {
      if (work.empty()) {
        for (const std::string_view one : names) {
          work.emplace(part_name(std::string(one)), one);
          work.emplace(state_name(std::string(one)), one);
        }
      }
      if (const auto of = work.find(name); of != work.end()) {
        const std::string owner = path_of(of->second);
        const auto spares = [&](const std::string& one) {
          return spared->excludes(path_of(one), false);
        };
        const bool is_spared =
            spared != nullptr && (spares(part_name(owner)) || spares(state_name(owner)));
        const bool goes = how == removal::real && !is_spared && is_whole && is_whole(owner);
        if (goes) drop_left(owner, whose::anyones);
        continue;
      }
      if (is_being_written(fd, name)) continue;
    }
    const std::string path = path_of(name);
    remove_tree(fd, name, path, how, spared, gone, problems, limit);
    state_->directories.forget(path);
  }
  return gone;
}

std::vector<std::string> target::make_way(const std::string& path, removal how,
                                          std::vector<problem>& problems, const filter* spared) {
  std::vector<std::string> gone;
  const auto at = find(path);
  struct stat s{};
  if (!at || ::fstatat(at->directory, at->name, &s, AT_SYMLINK_NOFOLLOW) != 0) return gone;
  if (!S_ISDIR(s.st_mode) || path == ".") return gone;
  remove_tree(at->directory, at->name, path, how, spared, gone, problems);
  state_->directories.forget(path);
  return gone;
}

}  // namespace copy
