#include "tree.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace demo {
namespace fs = std::filesystem;
namespace {

constexpr mode_t permission_bits = 07777;

[[noreturn]] void fail(const std::string& what, const fs::path& path) {
  throw std::runtime_error(what + " " + path.string() + ": " + std::strerror(errno));
}

std::int64_t modified_ns(const struct stat& s) noexcept {
  return s.st_mtim.tv_sec * std::int64_t{1'000'000'000} + s.st_mtim.tv_nsec;
}

cordma::unique_fd open_to_read(const fs::path& path) noexcept {
  return cordma::unique_fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

// Adds the path. Returns true if it is a directory that can be opened, and therefore must be read.
bool add(scanned& found, const fs::path& root, const fs::path& path) {
  std::string relative = path.lexically_relative(root).string();
  const auto leave_out = [&](const char* why) {
    found.left_out.push_back({std::move(relative), why});
    return false;
  };
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) return leave_out(std::strerror(errno));
  entry e;
  e.mode = s.st_mode & permission_bits;
  if (S_ISDIR(s.st_mode)) {
    if (!open_to_read(path)) return leave_out(std::strerror(errno));
    e.kind = entry_kind::directory;
  } else if (S_ISLNK(s.st_mode)) {
    e.kind = entry_kind::link;
    e.target = fs::read_symlink(path).string();
  } else if (!S_ISREG(s.st_mode)) {
    return leave_out("neither file, directory nor link");
  } else if (::access(path.c_str(), R_OK) != 0) {
    return leave_out(std::strerror(errno));
  } else {
    e.size = static_cast<std::uint64_t>(s.st_size);
    e.modified_ns = modified_ns(s);
    found.bytes += e.size;
  }
  e.path = std::move(relative);
  found.entries.push_back(std::move(e));
  return S_ISDIR(s.st_mode);
}

std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool same_contents(const fs::path& left, const fs::path& right) {
  const cordma::unique_fd a = open_to_read(left);
  const cordma::unique_fd b = open_to_read(right);
  if (!a || !b) return false;
  std::array<char, 65536> from_a;
  std::array<char, 65536> from_b;
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(a.get(), from_a.data(), from_a.size(), at);
    const ssize_t m = ::pread(b.get(), from_b.data(), from_b.size(), at);
    if (n < 0 || n != m) return false;
    if (n == 0) return true;
    if (std::memcmp(from_a.data(), from_b.data(), static_cast<std::size_t>(n)) != 0) return false;
    at += n;
  }
}

// Empty if there is no difference.
std::string difference(const fs::path& left, const fs::path& right, const entry& e) {
  struct stat a{};
  struct stat b{};
  if (::lstat(left.c_str(), &a) != 0) return left.string() + ": " + std::strerror(errno);
  if (::lstat(right.c_str(), &b) != 0) return right.string() + ": " + std::strerror(errno);
  const std::string both = e.path + " is ";
  if ((a.st_mode & S_IFMT) != (b.st_mode & S_IFMT)) return both + "of two kinds";
  if (e.kind == entry_kind::link) {
    return fs::read_symlink(left) == fs::read_symlink(right) ? "" : both + "a link to two targets";
  }
  if ((a.st_mode & permission_bits) != (b.st_mode & permission_bits)) {
    return both + "there with two permissions";
  }
  if (e.kind == entry_kind::directory) return {};
  if (a.st_size != b.st_size) return both + "there with two sizes";
  return same_contents(left, right) ? "" : both + "there with two contents";
}

}  // namespace

bool is_as_found(const entry& e, const struct stat& s) noexcept {
  return S_ISREG(s.st_mode) && static_cast<std::uint64_t>(s.st_size) == e.size &&
         modified_ns(s) == e.modified_ns;
}

scanned scan(const fs::path& root) {
  scanned found;
  std::error_code trouble;
  fs::recursive_directory_iterator at(root, trouble);
  if (trouble) throw std::runtime_error("cannot read " + root.string() + ": " + trouble.message());
  for (; at != fs::recursive_directory_iterator(); ++at) {
    if (!add(found, root, at->path())) at.disable_recursion_pending();
  }
  return found;
}

bool stays_inside(const std::string& path) noexcept {
  if (path.empty() || path.front() == '/' || path.back() == '/') return false;
  if (path.find('\0') != std::string::npos) return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = std::string_view(path).substr(at, slash - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = slash + 1;
  }
  return true;
}

std::vector<std::string> differences(const fs::path& left, const fs::path& right,
                                     const std::vector<entry>& entries, std::size_t most) {
  std::vector<std::string> found;
  for (const entry& e : entries) {
    std::string d = difference(left / e.path, right / e.path, e);
    if (!d.empty()) found.push_back(std::move(d));
    if (found.size() == most) break;
  }
  return found;
}

std::vector<std::string> strangers(const fs::path& root, const std::vector<entry>& entries,
                                   const std::vector<omission>& left_out, std::size_t most) {
  std::unordered_set<std::string> known;
  for (const entry& e : entries) known.insert(e.path);
  std::unordered_set<std::string> passed_over;  // omitted paths; their content is skipped
  for (const omission& o : left_out) passed_over.insert(o.path);
  std::vector<std::string> found;
  const auto look_at = [&](const std::string& path) {
    if (known.contains(path) || passed_over.contains(path) || found.size() == most) return;
    if (!passed_over.contains(parent(path))) {
      found.push_back(path + " is only in " + root.string());
    }
    passed_over.insert(path);
  };
  const scanned there = scan(root);
  for (const entry& e : there.entries) look_at(e.path);
  for (const omission& o : there.left_out) look_at(o.path);
  return found;
}

tree_writer::tree_writer(fs::path root, const std::vector<entry>& entries)
    : root_(std::move(root)), entries_(entries) {
  std::error_code trouble;
  fs::create_directories(root_, trouble);
  if (trouble || !fs::is_empty(root_, trouble) || trouble) {
    throw std::runtime_error(root_.string() + " is not an empty directory" +
                             (trouble ? ": " + trouble.message() : std::string()));
  }
  open_next();
}

// Creates all entries up to the next non-empty file.
void tree_writer::open_next() {
  for (; next_ < entries_.size(); ++next_) {
    const entry& e = entries_[next_];
    const fs::path path = root_ / e.path;
    if (e.kind == entry_kind::link) continue;
    if (e.kind == entry_kind::directory) {
      if (::mkdir(path.c_str(), 0700) != 0) fail("cannot make", path);
      continue;
    }
    fd_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd_) fail("cannot make", path);
    left_ = e.size;
    if (left_ != 0) return;
    close_current();
  }
}

void tree_writer::close_current() {
  const fs::path path = root_ / entries_[next_].path;
  const bool kept = ::fchmod(fd_.get(), static_cast<mode_t>(entries_[next_].mode)) == 0;
  const bool closed = ::close(fd_.release()) == 0;
  if (!kept || !closed) fail("cannot finish", path);
}

void tree_writer::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    if (!fd_) throw std::runtime_error("the server sent more than its list of files has");
    const std::size_t here = std::min<std::uint64_t>(bytes, left_);
    const ssize_t n = ::write(fd_.get(), at, here);
    if (n < 0) fail("cannot write", root_ / entries_[next_].path);
    at += n;
    bytes -= static_cast<std::size_t>(n);
    left_ -= static_cast<std::uint64_t>(n);
    if (left_ != 0) continue;
    close_current();
    ++next_;
    open_next();
  }
}

void tree_writer::finish() {
  if (next_ != entries_.size()) throw std::runtime_error("the server sent less than it has listed");
  for (const entry& e : entries_) {
    const fs::path path = root_ / e.path;
    if (e.kind == entry_kind::link && ::symlink(e.target.c_str(), path.c_str()) != 0) {
      fail("cannot link", path);
    }
  }
  for (auto e = entries_.rbegin(); e != entries_.rend(); ++e) {
    const fs::path path = root_ / e->path;
    if (e->kind == entry_kind::directory &&
        ::chmod(path.c_str(), static_cast<mode_t>(e->mode)) != 0) {
      fail("cannot set the permissions of", path);
    }
  }
}

}  // namespace demo
