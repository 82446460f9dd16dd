// Keeps the metadata of an entry, in an order in which no step undoes another: group and owner
// (which clears set-id bits and capabilities), attributes, mode, times.
#include "ownership.hpp"
#include "target.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <endian.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace copy {

using cordma::unique_fd;

namespace {

// Returns the permissions that a new file in `directory` gets of those requested: those of the
// default ACL of the directory if it has one, else those that the umask leaves. Same rule as
// open(2), for files created with their final permissions.
std::uint32_t rights_of_new(int directory, std::uint32_t umask) {
  constexpr std::uint32_t all = 0777;
  constexpr std::size_t most = 4096;
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", directory);
  std::vector<char> acl(most);
  ssize_t length = ::getxattr(path.data(), "system.posix_acl_default", acl.data(), acl.size());
  if (length < 0 && errno == ERANGE) {
    acl.resize(XATTR_SIZE_MAX);
    length = ::getxattr(path.data(), "system.posix_acl_default", acl.data(), acl.size());
  }
  if (length < static_cast<ssize_t>(sizeof(posix_acl_xattr_header))) return all & ~umask;
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t others = 0;
  std::optional<std::uint32_t> mask;  // of the group, if other users are named
  posix_acl_xattr_entry e{};
  for (std::size_t at = sizeof(posix_acl_xattr_header);
       at + sizeof e <= static_cast<std::size_t>(length); at += sizeof e) {
    std::memcpy(&e, acl.data() + at, sizeof e);
    const std::uint32_t rights = le16toh(e.e_perm) & 07U;
    switch (le16toh(e.e_tag)) {
      case ACL_USER_OBJ: owner = rights; break;
      case ACL_GROUP_OBJ: group = rights; break;
      case ACL_MASK: mask = rights; break;
      case ACL_OTHER: others = rights; break;
      default: break;
    }
  }
  return owner << 6 | mask.value_or(group) << 3 | others;
}

std::string text_of(int os_errno) { return std::generic_category().message(os_errno); }

// The entry itself, independent of later changes of its name. A descriptor for *at() calls only
// (O_PATH: a symlink, an unreadable file) is reached through its entry in /proc if a call has no
// other way.
class kept {
 public:
  enum class access : unsigned char { open, path_only };
  kept(int fd, access how) noexcept : fd_(fd), how_(how) {
    if (!is_open()) std::snprintf(link_.data(), link_.size(), "/proc/self/fd/%d", fd);
  }

  // These return 0, or errno.
  [[nodiscard]] int look(struct stat& s) const noexcept { return done(::fstat(fd_, &s)); }
  [[nodiscard]] int own(uid_t user, gid_t group) const noexcept {
    return done(::fchownat(fd_, "", user, group, AT_EMPTY_PATH));
  }
  [[nodiscard]] int set_mode(std::uint32_t mode) const noexcept {
    return done(is_open() ? ::fchmod(fd_, mode) : ::chmod(link(), mode));
  }
  [[nodiscard]] int set_times(const std::array<timespec, 2>& times) const noexcept {
    return done(is_open() ? ::futimens(fd_, times.data())
                          : ::utimensat(fd_, "", times.data(), AT_EMPTY_PATH));
  }
  [[nodiscard]] int set(const attribute& a) const noexcept {
    const char* const name = a.name.c_str();
    return done(is_open() ? ::fsetxattr(fd_, name, a.value.data(), a.value.size(), 0)
                          : ::setxattr(link(), name, a.value.data(), a.value.size(), 0));
  }
  [[nodiscard]] int remove(const char* name) const noexcept {
    return done(is_open() ? ::fremovexattr(fd_, name) : ::removexattr(link(), name));
  }
  // These return a size in bytes, or -1 with errno; with `room` 0, the size needed.
  [[nodiscard]] ssize_t get(const char* name, char* into, std::size_t room) const noexcept {
    return is_open() ? ::fgetxattr(fd_, name, into, room) : ::getxattr(link(), name, into, room);
  }
  [[nodiscard]] ssize_t list(char* into, std::size_t room) const noexcept {
    return is_open() ? ::flistxattr(fd_, into, room) : ::listxattr(link(), into, room);
  }

 private:
  [[nodiscard]] bool is_open() const noexcept { return how_ == access::open; }
  [[nodiscard]] const char* link() const noexcept { return link_.data(); }
  static int done(int returned) noexcept { return returned == 0 ? 0 : errno; }
  int fd_;
  access how_;
  std::array<char, 32> link_{};
};

// Keeps the metadata of one entry, and collects the failures.
class keeper {
 public:
  // `rights`: mask for the requested mode of a file if its mode is not kept.
  keeper(const kept& to, const entry& from, const keep_options& what, std::uint32_t rights)
      : to_(to), from_(from), what_(what), rights_(rights) {}

  [[nodiscard]] bool differs_in_attributes() const {
    const auto& wanted = from_.attributes;
    return !superfluous().empty() || std::any_of(wanted.begin(), wanted.end(),
                                                 [this](const attribute& a) { return !has(a); });
  }

  std::vector<std::string> keep() {
    if (look()) {
      if (what_.group) keep_group();
      if (what_.owner) keep_owner();
      if (what_.attributes) keep_attributes();
      if (from_.kind != entry_kind::symlink) keep_mode();
      if (what_.times) keep_times();
    }
    return std::move(sentences_);
  }

 private:
  struct change {
    std::string name;
    const attribute* to = nullptr;  // null: remove it
  };

  void say(std::string_view what, int os_errno) {
    sentences_.push_back(std::string(what) + ": " + text_of(os_errno));
  }
  bool look() {
    const int why = to_.look(now_);
    if (why != 0) say("attributes", why);
    return why == 0;
  }

  // The number that chown() takes for "unchanged" is no valid id.
  void keep_group() {
    if (now_.st_gid == from_.gid || !is_group_wanted(what_, from_.gid)) return;
    constexpr uid_t same = static_cast<uid_t>(-1);
    const int why = from_.gid == static_cast<gid_t>(-1) ? EINVAL : to_.own(same, from_.gid);
    if (why != 0) say("group", why);
    look();
  }
  void keep_owner() {
    if (now_.st_uid == from_.uid || !is_owner_wanted(what_)) return;
    constexpr gid_t same = static_cast<gid_t>(-1);
    const int why = from_.uid == static_cast<uid_t>(-1) ? EINVAL : to_.own(from_.uid, same);
    if (why != 0) say("owner", why);
    look();
  }

  void keep_attributes() {
    std::vector<change> changes = superfluous();
    for (const attribute& a : from_.attributes) {
      if (!has(a)) changes.push_back({a.name, &a});
    }
    if (changes.empty()) return;
    // Attributes in user.* need write permission on the file; all others need its owner.
    const auto others = std::partition(changes.begin(), changes.end(),
                                       [](const change& c) { return c.name.starts_with("user."); });
    const std::uint32_t mode = now_.st_mode & 07777;
    const bool closed = !S_ISLNK(now_.st_mode) && (mode & S_IWUSR) == 0;
    if (closed && others != changes.begin()) (void)to_.set_mode(mode | S_IWUSR);
    make({changes.begin(), others});
    if (closed && others != changes.begin()) {
      if (const int why = to_.set_mode(mode); why != 0) say("mode", why);
    }
    make({others, changes.end()});
    look();  // an ACL contains the mode
  }
  void make(std::span<const change> changes) {
    for (const change& c : changes) {
      const int why = c.to == nullptr ? to_.remove(c.name.c_str()) : to_.set(*c.to);
      if (why != 0) say("attribute " + c.name, why);
    }
  }
  [[nodiscard]] bool has(const attribute& a) const {
    std::string value(a.value.size() + 1, '\0');  // one byte longer, to detect a longer value
    const ssize_t length = to_.get(a.name.c_str(), value.data(), value.size());
    return length >= 0 &&
           std::string_view(value).substr(0, static_cast<std::size_t>(length)) == a.value;
  }
  // Attributes that the target's system sets by itself (labels) are not superfluous.
  [[nodiscard]] std::vector<change> superfluous() const {
    std::vector<change> found;
    std::string names;
    // Attributes added between the two calls make the second fail, and then none is removed.
    if (const ssize_t length = to_.list(nullptr, 0); length > 0) {
      names.resize(static_cast<std::size_t>(length));
      const ssize_t read = to_.list(names.data(), names.size());
      names.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
    }
    std::string name;
    for (std::size_t at = 0; at < names.size(); at += name.size() + 1) {
      name = names.c_str() + at;
      const bool may_go = name.starts_with("user.") || name == "system.posix_acl_access" ||
                          name == "system.posix_acl_default" || name == "security.capability";
      const bool wanted = std::any_of(from_.attributes.begin(), from_.attributes.end(),
                                      [&](const attribute& a) { return a.name == name; });
      if (may_go && !wanted) found.push_back({name, nullptr});
    }
    return found;
  }

  void keep_mode() {
    std::uint32_t mode = now_.st_mode & 07777;
    if (what_.mode) {
      mode = from_.mode & 07777;
    } else if (has_contents(from_.kind) && !what_.is_made) {
      mode = from_.mode & 0777 & rights_;
    }
    if (from_.kind == entry_kind::file) {
      // Otherwise the bit would apply to another owner or group.
      if ((mode & S_ISUID) != 0 && now_.st_uid != from_.uid) {
        mode &= ~std::uint32_t{S_ISUID};
        sentences_.emplace_back("mode: without set-user-id, as the owner is another");
      }
      if ((mode & S_ISGID) != 0 && now_.st_gid != from_.gid) {
        mode &= ~std::uint32_t{S_ISGID};
        sentences_.emplace_back("mode: without set-group-id, as the group is another");
      }
    }
    if (mode == (now_.st_mode & 07777)) return;
    if (const int why = to_.set_mode(mode); why != 0) say("mode", why);
  }

  void keep_times() {
    constexpr std::uint32_t ns_per_s =
        1'000'000'000;  // larger numbers have special meanings, such as "now"
    const std::array<timespec, 2> times{
        {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
         {.tv_sec = from_.modified.s, .tv_nsec = static_cast<long>(from_.modified.ns)}}};
    const int why = from_.modified.ns < ns_per_s ? to_.set_times(times) : EINVAL;
    if (why != 0) say("times", why);
  }

  const kept& to_;
  const entry& from_;
  const keep_options& what_;
  std::uint32_t rights_;
  struct stat now_{};
  std::vector<std::string> sentences_;
};

bool is_of(const entry& e, const struct stat& s) noexcept {
  switch (e.kind) {
    case entry_kind::directory: return S_ISDIR(s.st_mode);
    case entry_kind::file: return S_ISREG(s.st_mode);
    case entry_kind::symlink: return S_ISLNK(s.st_mode);
    case entry_kind::special: return (s.st_mode & S_IFMT) == e.type;
    case entry_kind::hard_link:
    case entry_kind::stream: break;
  }
  return false;
}

// Opens only directories; other kinds get O_PATH, because opening a device can have effects.
unique_fd open_to_keep(int directory, const char* name, entry_kind kind, kept::access& how) {
  constexpr int flags = O_NOFOLLOW | O_CLOEXEC;
  unique_fd fd;
  if (kind == entry_kind::directory)
    fd.reset(::openat(directory, name, flags | O_RDONLY | O_DIRECTORY));
  if (fd) return fd;
  how = kept::access::path_only;
  return unique_fd(::openat(directory, name, flags | O_PATH));
}

}  // namespace

std::vector<std::string> target::keep(int fd, const entry& from, const keep_options& what) {
  const kept to(fd, kept::access::open);
  std::uint32_t rights = 0777 & ~umask_here();
  if (!what.mode && !what.is_made && has_contents(from.kind)) {
    const auto at = find(from.path);
    if (!at) return {at.why().message()};
    rights = rights_of_new(at->directory, umask_here());
  }
  return keeper(to, from, what, rights).keep();
}

std::vector<std::string> target::keep(const std::string& path, const entry& from,
                                      const keep_options& what) {
  if (from.kind == entry_kind::hard_link || from.kind == entry_kind::stream) return {};
  const auto at = find(path);
  if (!at) return {at.why().message()};
  auto access = kept::access::open;
  const unique_fd fd = open_to_keep(at->directory, at->name, from.kind, access);
  if (!fd) return {text_of(errno)};
  struct stat s{};
  if (::fstat(fd.get(), &s) != 0) return {text_of(errno)};
  if (!is_of(from, s)) return {"something else was put in its place"};
  const kept to(fd.get(), access);
  const bool is_asked = !what.mode && !what.is_made && has_contents(from.kind);
  const std::uint32_t rights = is_asked ? rights_of_new(at->directory, umask_here()) : 0;
  return keeper(to, from, what, rights).keep();
}

bool target::differs_in_attributes(const std::string& path, const entry& from) {
  const auto at = find(path);
  if (!at) return false;
  auto access = kept::access::open;
  const unique_fd fd = open_to_keep(at->directory, at->name, from.kind, access);
  struct stat s{};
  if (!fd || ::fstat(fd.get(), &s) != 0 || !is_of(from, s)) return false;
  const kept to(fd.get(), access);
  const keep_options nothing;
  return keeper(to, from, nothing, 0).differs_in_attributes();
}

}  // namespace copy
