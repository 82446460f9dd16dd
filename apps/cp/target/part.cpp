// Temporary files beside a name: parts of files, their sidecars, new symlinks and hard links.
#include "../../support/lock_holder.hpp"
#include "../tree/describe.hpp"
#include "removal.hpp"
#include "resume.hpp"
#include "target.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace copy {

using cordma::failure;
using cordma::result;
using cordma::unique_fd;

namespace {

constexpr std::size_t longest_name = 255;  // NAME_MAX, in bytes
constexpr std::string_view part_suffix = ".cordma-part";
constexpr std::string_view state_suffix = ".cordma-state";
// Names up to this length are used unchanged in their work names. A shortened work name has the
// maximum length, and is longer than all of those; so no two are equal.
constexpr std::size_t longest_whole = 240;  // in bytes
static_assert(1 + longest_whole + std::max(part_suffix.size(), state_suffix.size()) < longest_name);

std::string work_name(std::string_view path, std::string_view suffix) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  std::string made = ".";
  if (name.size() <= longest_whole) return made.append(name).append(suffix);
  std::array<char, 18> hash{};  // "-", 16 digits, and the terminating 0
  std::snprintf(hash.data(), hash.size(), "-%016llx",
                static_cast<unsigned long long>(XXH3_64bits(name.data(), name.size())));
  const std::size_t kept = longest_name - 1 - (hash.size() - 1) - suffix.size();
  std::size_t cut = kept;
  // Does not cut within a character: some file systems refuse names that are not UTF-8.
  while (kept - cut < 3 && (static_cast<unsigned char>(name[cut]) & 0xc0) == 0x80) --cut;
  made.append(name.substr(0, cut)).append(kept - cut, '-');
  return made.append(hash.data()).append(suffix);
}

bool is_top(const target::position& at) noexcept { return std::string_view(at.name) == "."; }

// True if no other user can have created the file, or writes it.
bool is_ours(const struct stat& s) noexcept {
  return S_ISREG(s.st_mode) && s.st_nlink == 1 && s.st_uid == ::geteuid();
}

constexpr mode_t for_us_alone = 0600;  // until its metadata is kept
constexpr int only_to_lock = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

failure in_use(int directory, const std::string& name) {
  struct stat s{};
  std::string process;
  if (::fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0)
    process = support::lock_holder(s);
  std::string why = "another transfer is writing it";
  if (process == std::to_string(::getpid())) {
    why = "it is being written: by another transfer of this process (" + process +
          "), or under another name (a hard link)";
  } else if (!process.empty()) {
    why += ": process " + process;
  }
  return failure(cordma::errc::bad_state, std::move(why)).with_errno(EBUSY);
}

// Returns false if the file system has no locks: other transfers cannot be excluded then.
bool is_locked_by_another(int fd) noexcept {
  return ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// True if `fd` is the file `found`.
bool is_it(int fd, const struct stat& found) noexcept {
  struct stat held{};
  return ::fstat(fd, &held) == 0 && same_file(held, found);
}

// Returns 0; EBUSY if another transfer has locked it; or EAGAIN if `name` has become another file
// since.
int lock(int fd, int directory, const std::string& name) noexcept {
  if (is_locked_by_another(fd)) return EBUSY;
  struct stat named{};
  const bool is_there = ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0;
  return is_there && is_it(fd, named) ? 0 : EAGAIN;
}

// Removes a name. Returns 0 (also if it does not exist), or errno; EISDIR for a directory, which is
// not of this program.
int unlink_if_there(int directory, const std::string& name) noexcept {
  return ::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT ? 0 : errno;
}

// Removes a file that cannot be taken over. Returns a negative errno: -ENOENT after its removal, or
// -EBUSY if another transfer has locked it.
int drop(int directory, const std::string& name, const struct stat& found) {
  if (S_ISREG(found.st_mode)) {
    const unique_fd held(::openat(directory, name.c_str(), only_to_lock));
    if (held && is_locked_by_another(held.get())) return -EBUSY;
  }
  const int why = unlink_if_there(directory, name);
  return why == 0 ? -ENOENT : -why;
}

// Opens and locks the file of an earlier transfer. Returns a descriptor or a negative errno:
// -ENOENT if it does not exist (any more), -EAGAIN if it was exchanged meanwhile.
int take_over(int directory, const std::string& name, int flags) {
  struct stat found{};
  if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  if (!is_ours(found)) return drop(directory, name, found);
  // O_NONBLOCK: it may have become a FIFO.
  unique_fd opened(
      ::openat(directory, name.c_str(), (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!opened) {
    const int why = errno;
    if (why == EACCES) return drop(directory, name, found);
    const bool exchanged = why == ENOENT || why == ELOOP || why == EISDIR || why == ENXIO;
    return exchanged ? -EAGAIN : -why;
  }
  if (const int why = lock(opened.get(), directory, name); why != 0) return -why;
  if (::fstat(opened.get(), &found) != 0) return -errno;
  if (!is_ours(found)) return -EAGAIN;
  // A file that was about to be published already has its final mode.
  const bool is_open = (found.st_mode & 0777) != for_us_alone;
  if (is_open && ::fchmod(opened.get(), for_us_alone) != 0) return -errno;
  if (::fcntl(opened.get(), F_SETFL, flags & ~(O_NONBLOCK | O_ACCMODE)) != 0) return -errno;
  return opened.release();
}

// Creates and locks a file. Returns a descriptor, or a negative errno.
int make_new(int directory, const std::string& name, int flags,
             mode_t mode = for_us_alone) noexcept {
  unique_fd made(::openat(directory, name.c_str(),
                          (flags & ~O_TRUNC) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!made) return -errno;
  const int why = lock(made.get(), directory, name);
  return why == 0 ? made.release() : -why;
}

// Takes over or creates `name`. If it is created, or to be emptied, first removes `beside`, unless
// that is empty. Returns a descriptor, or a negative errno.
int open_work(int directory, const std::string& name, int flags, const std::string& beside) {
  constexpr int most_tries = 3;  // another process may replace it meanwhile
  for (int tries = 0; tries < most_tries; ++tries) {
    unique_fd fd(take_over(directory, name, flags));
    if (fd.get() == -EAGAIN) continue;
    if (!fd && fd.get() != -ENOENT) return fd.get();
    if (fd && (flags & O_TRUNC) == 0) return fd.release();
    if (!beside.empty()) {
      if (const int why = unlink_if_there(directory, beside); why != 0) return -why;
    }
    if (fd) return ::ftruncate(fd.get(), 0) == 0 ? fd.release() : -errno;
    const int made = make_new(directory, name, flags);
    if (made != -EEXIST && made != -EAGAIN) return made;
  }
  return -EBUSY;
}

// Opens a file of this user that is not writable: makes it writable for the moment of the open.
// Returns none for a file of another user.
unique_fd open_closed(int directory, const char* name) {
  const unique_fd held(::openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat s{};
  if (!held || ::fstat(held.get(), &s) != 0) return {};
  if (!S_ISREG(s.st_mode) || s.st_uid != ::geteuid()) return {};
  const std::string way = "/proc/self/fd/" + std::to_string(held.get());
  const mode_t mode = s.st_mode & 07777;
  if (::chmod(way.c_str(), mode | S_IWUSR) != 0) return {};
  unique_fd fd(::open(way.c_str(), O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const int closed = ::chmod(way.c_str(), mode);
  return fd;
}

// Renames `from`, in the same directory, to a name that must not exist. If the file system cannot
// ensure that, it is checked before. Returns 0, or errno.
int name_new(const target::position& to, const std::string& from) noexcept {
  const int there = to.directory;
  if (::renameat2(there, from.c_str(), there, to.name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat s{};
  if (::fstatat(there, to.name, &s, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return ::renameat(there, from.c_str(), there, to.name) == 0 ? 0 : errno;
}

// Links a file without a name. Returns 0, or errno.
int name_it(int fd, const target::position& to) {
  // Before Linux 6.10 the first call requires CAP_DAC_READ_SEARCH.
  if (::linkat(fd, "", to.directory, to.name, AT_EMPTY_PATH) == 0) return 0;
  if (errno != ENOENT) return errno;
  const std::string way = "/proc/self/fd/" + std::to_string(fd);
  return ::linkat(AT_FDCWD, way.c_str(), to.directory, to.name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

}  // namespace

std::string target::part_name(const std::string& path) { return work_name(path, part_suffix); }
std::string target::state_name(const std::string& path) { return work_name(path, state_suffix); }

bool target::is_work_name(std::string_view name) noexcept {
  return name.starts_with('.') && (name.ends_with(part_suffix) || name.ends_with(state_suffix));
}

bool target::is_being_written(int directory, const std::string& name) noexcept {
  const unique_fd held(::openat(directory, name.c_str(), only_to_lock));
  return held ? is_locked_by_another(held.get()) : errno == EACCES;
}

result<unique_fd> target::open_part(const std::string& path, int flags) {
  const auto at = find(path);
  if (!at) return at.why();
  // A sidecar without its part would vouch for chunks that do not exist.
  const int fd =
      is_top(*at) ? -EISDIR : open_work(at->directory, part_name(path), flags, state_name(path));
  if (fd == -EBUSY) return in_use(at->directory, part_name(path));
  if (fd < 0) return failure::from_os(-fd, {"opening the part of ", path});
  return unique_fd(fd);
}

result<unique_fd> target::open_state(const std::string& path) {
  const auto at = find(path);
  if (!at) return at.why();
  const int fd = is_top(*at) ? -EISDIR : open_work(at->directory, state_name(path), O_RDWR, "");
  if (fd < 0) return failure::from_os(-fd, {"opening the sidecar of ", path});
  return unique_fd(fd);
}

result<target::opened> target::open_inplace(const std::string& path, std::uint32_t mode,
                                            const beginning& begin_new) {
  const auto at = find(path);
  if (!at) return at.why();
  if (is_top(*at)) return failure::from_os(EISDIR, {"opening ", path});
  constexpr int how = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  constexpr int most_tries = 3;  // another process may replace it meanwhile
  int why = EBUSY;
  for (int tries = 0; tries < most_tries; ++tries) {
    struct stat s{};
    const bool is_there = ::fstatat(at->directory, at->name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && !S_ISREG(s.st_mode)) return failure::from_os(EEXIST, {"opening ", path});
    if (!is_there) {
      result<unique_fd> made = make_inplace(path, *at, mode | S_IRUSR | S_IWUSR, begin_new);
      if (made) return opened{.fd = std::move(made).value(), .before = {}};
      why = made.why().os_errno();
      if (why != EEXIST) return made.why();
      continue;
    }
    unique_fd fd(::openat(at->directory, at->name, how));
    why = fd ? 0 : errno;
    if (why == EACCES) fd = open_closed(at->directory, at->name);
    if (why == ELOOP || why == ENXIO || why == ENOENT) continue;
    if (!fd) break;
    const int held = lock(fd.get(), at->directory, at->name);
    if (held == EBUSY) return in_use(at->directory, at->name);
    // Read after the lock: an earlier holder may have changed the file.
    why = EBUSY;
    if (held != 0 || ::fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    return opened{.fd = std::move(fd), .before = s};
  }
  return failure::from_os(why, {"opening ", path});
}

result<unique_fd> target::make_inplace(const std::string& path, const position& at,
                                       std::uint32_t mode, const beginning& begin_new) {
  const auto fails = [&](int why) { return failure::from_os(why, {"making ", path}); };
  result<unique_fd> made = open_unnamed(path, mode & 0777);
  if (!made && made.why().code() == cordma::errc::not_supported) {
    // Uses a name that no other transfer has.
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) return fails(errno);
    const std::string own = part_name(path + '~' + std::to_string(number));
    made = unique_fd(make_new(at.directory, own, O_WRONLY, mode & 0777));
    if (!*made) return fails(-made->get());
    result<void> done = begin_new(made->get());
    if (done) {
      const int why = name_new(at, own);
      if (why == 0) return made;
      done = fails(why);
    }
    ::unlinkat(at.directory, own.c_str(), 0);
    return done.why();
  }
  if (!made) return made.why();
  if (is_locked_by_another(made->get())) return in_use(at.directory, at.name);
  if (const result<void> begun = begin_new(made->get()); !begun) return begun.why();
  if (const int why = name_it(made->get(), at); why != 0) return fails(why);
  return made;
}

result<unique_fd> target::open_unnamed(const std::string& path, std::uint32_t mode) {
  const auto at = find(path);
  if (!at) return at.why();
  // Opened through ".": a descriptor for *at() calls only (O_PATH) has no other way.
  const int fd = ::openat(at->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (fd >= 0) return unique_fd(fd);
  const bool has_none = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT;
  if (has_none) return cordma::errc::not_supported;
  return failure::from_os(errno, {"opening a file for ", path});
}

result<void> target::publish_unnamed(int fd, const std::string& path) {
  const auto at = find(path);
  if (!at) return at.why();
  if (is_top(*at)) return failure::from_os(EISDIR, {"replacing ", path});
  const int why = name_it(fd, *at);
  if (why == 0) return {};
  if (why != EEXIST) return failure::from_os(why, {"replacing ", path});
  // Otherwise another transfer could mistake it for an abandoned part.
  if (is_locked_by_another(fd)) return failure::from_os(EBUSY, {"replacing ", path});
  return put_in_place(path, *at,
                      [&](const char* name) { return name_it(fd, {at->directory, name}); });
}

result<void> target::put_in_place(const std::string& path, const position& at,
                                  const std::function<int(const char*)>& make) {
  constexpr int most_tries = 100;
  constexpr auto a_while = std::chrono::milliseconds(1);
  const std::string made = part_name(path);
  for (int tries = 0;; ++tries) {
    const bool is_last = tries == most_tries;
    const int why = make(made.c_str());
    if (why == 0) {
      auto done = replace(path, at, made.c_str());
      if (done || done.why().os_errno() != ENOENT || is_last) {
        if (!done) ::unlinkat(at.directory, made.c_str(), 0);
        return done;
      }
      continue;  // another transfer mistook it for an abandoned part
    }
    if (why != EEXIST) return failure::from_os(why, {"replacing ", path});
    auto dropped = drop_part(path);
    if (!dropped && (dropped.why().os_errno() != EBUSY || is_last)) return dropped;
    if (!dropped) std::this_thread::sleep_for(a_while);
  }
}

result<void> target::publish(int part, const std::string& path) {
  const auto at = find(path);
  if (!at) return at.why();
  if (is_top(*at)) return failure::from_os(EISDIR, {"replacing ", path});
  const std::string made = part_name(path);
  struct stat found{};
  if (::fstatat(at->directory, made.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return failure::from_os(errno, {"replacing ", path});
  }
  // This part was removed, and the present one belongs to another transfer.
  if (!is_it(part, found)) return in_use(at->directory, made);
  if (auto done = replace(path, *at, made.c_str()); !done) return done;
  // A remaining sidecar has no part, and so is not accepted.
  ::unlinkat(at->directory, state_name(path).c_str(), 0);
  return {};
}

result<void> target::drop_part(const std::string& path) noexcept {
  const auto at = find(path);
  if (!at) return at.why();
  if (is_top(*at)) return {};
  const std::string part = part_name(path);
  const bool is_file = is_regular(at->directory, part);
  const unique_fd held(is_file ? ::openat(at->directory, part.c_str(), only_to_lock) : -1);
  if (held && is_locked_by_another(held.get())) return in_use(at->directory, part);
  // The sidecar is removed first: it must not outlive its part.
  int why = unlink_if_there(at->directory, state_name(path));
  if (why == 0) why = unlink_if_there(at->directory, part);
  if (why != 0) return failure::from_os(why, {"removing the part of ", path});
  return {};
}

void target::drop_left(const std::string& path, whose which) noexcept {
  const auto at = find(path);
  if (!at || is_top(*at)) return;
  // Returns null if the file does not exist; an empty descriptor if it is in use or must not be
  // removed.
  const auto hold = [&](const std::string& name) -> std::optional<unique_fd> {
    struct stat found{};
    if (::fstatat(at->directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return {};
    const bool may_go = which == whose::anyones ? S_ISREG(found.st_mode) : is_ours(found);
    unique_fd held;
    if (may_go) held.reset(::openat(at->directory, name.c_str(), only_to_lock));
    if (held && lock(held.get(), at->directory, name) != 0) held.reset();
    return held;
  };
  const std::optional<unique_fd> part = hold(part_name(path));
  if (part && !*part) return;
  const std::optional<unique_fd> sidecar = hold(state_name(path));
  if (sidecar && !*sidecar) return;
  const bool is_left = sidecar && resume_state::is_one(sidecar->get());
  if (which == whose::ours && !is_left) return;
  // The sidecar is removed first: it must not outlive its part.
  if (sidecar) ::unlinkat(at->directory, state_name(path).c_str(), 0);
  if (part) ::unlinkat(at->directory, part_name(path).c_str(), 0);
}

result<void> target::make_symlink(const std::string& path, const std::string& text) {
  const auto at = find(path);
  if (!at) return at.why();
  const auto fails = [&](int why) { return failure::from_os(why, {"making the symlink ", path}); };
  if (is_top(*at)) return fails(EISDIR);
  if (text.empty() || text.find('\0') != std::string::npos) return fails(EINVAL);
  return put_in_place(path, *at, [&](const char* name) {
    return ::symlinkat(text.c_str(), at->directory, name) == 0 ? 0 : errno;
  });
}

result<void> target::make_special(const std::string& path, const entry& from) {
  const auto at = find(path);
  if (!at) return at.why();
  if (is_top(*at)) return failure::from_os(EISDIR, {"replacing ", path});
  return put_in_place(path, *at, [&](const char* name) {
    const mode_t mode = from.type | (from.mode & 0777);
    return ::mknodat(at->directory, name, mode, static_cast<dev_t>(from.device)) == 0 ? 0 : errno;
  });
}

result<void> target::make_hard_link(const std::string& path, const std::string& to) {
  const auto from = find(to);
  if (!from) return from.why();
  // `from` stays valid, because a few directories are kept open.
  const auto at = find(path);
  if (!at) return at.why();
  const auto fails = [&](int why) { return failure::from_os(why, {"linking ", path, " to ", to}); };
  if (is_top(*at)) return fails(EISDIR);
  const auto link = [&](const char* name) {
    return ::linkat(from->directory, from->name, at->directory, name, 0) == 0 ? 0 : errno;
  };
  const int why = link(at->name);
  if (why == 0) return {};
  if (why != EEXIST) return fails(why);
  const auto are_one = [&](const char* name) {
    struct stat a{};
    struct stat b{};
    return ::fstatat(from->directory, from->name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::fstatat(at->directory, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && same_file(a, b);
  };
  if (are_one(at->name)) return {};
  auto done = put_in_place(path, *at, link);
  // rename() does nothing if both names are the same file.
  const std::string made = part_name(path);
  if (are_one(made.c_str())) ::unlinkat(at->directory, made.c_str(), 0);
  return done;
}

}  // namespace copy
