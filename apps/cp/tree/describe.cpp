#include "describe.hpp"

#include "../files/digest.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <linux/limits.h>
#include <unistd.h>

namespace copy {
namespace {

std::uint64_t read_boot() noexcept {
  std::array<std::byte, 36> boot{};
  const cordma::unique_fd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const bool is_known = fd && ::read(fd.get(), boot.data(), boot.size()) == ssize_t{boot.size()};
  return is_known ? digest_of(boot) : 0;
}

// If the boot is unknown, files of other machines may be mistaken for this machine's.
std::uint64_t which_file(const struct stat& s) noexcept {
  const std::uint64_t words[] = {this_boot(), s.st_dev, s.st_ino};
  return digest_of(std::as_bytes(std::span(words)));
}

}  // namespace

std::uint64_t this_boot() noexcept {
  static const std::uint64_t boot = read_boot();
  return boot;
}

entry describe(const struct stat& s, entry_kind kind) {
  constexpr std::uint64_t block_bytes = 512;  // unit of st_blocks on every file system
  entry e;
  e.kind = kind;
  e.mode = s.st_mode & 07777;
  e.uid = s.st_uid;
  e.gid = s.st_gid;
  if (kind == entry_kind::file) {
    e.device = which_file(s);
    e.size = static_cast<std::uint64_t>(s.st_size);
    e.allocated = static_cast<std::uint64_t>(s.st_blocks) * block_bytes;
  }
  if (kind == entry_kind::special) {
    e.type = s.st_mode & S_IFMT;
    e.device = S_ISCHR(s.st_mode) || S_ISBLK(s.st_mode) ? s.st_rdev : 0;
  }
  e.modified = {.s = s.st_mtim.tv_sec, .ns = static_cast<std::uint32_t>(s.st_mtim.tv_nsec)};
  // The time of change, which cannot be set back, and the identity of the file.
  const std::uint64_t words[] = {static_cast<std::uint64_t>(s.st_dev), s.st_ino,
                                 static_cast<std::uint64_t>(s.st_ctim.tv_sec),
                                 static_cast<std::uint64_t>(s.st_ctim.tv_nsec)};
  e.version = static_cast<std::uint32_t>(digest_of(std::as_bytes(std::span(words))));
  return e;
}

const char* why_left_out(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "is a directory; -r copies it";
    case S_IFLNK: return "is a symlink; -l copies it";
    case S_IFIFO: return "is a FIFO; --specials copies it";
    case S_IFSOCK: return "is a socket; --specials copies it";
    default: return "is a device; --devices copies it";
  }
}

bool is_gone(int error) noexcept {
  // or it has been replaced by another entry
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

std::string reason(int error) {
  // EXDEV is the error of RESOLVE_BENEATH.
  return error == EXDEV ? "leads out of what may be read" : std::strerror(error);
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int read_link(int directory, const char* name, std::string& into) {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(directory, name, text, sizeof text);
  if (size < 0) return errno == EINVAL ? ENOENT : errno;
  if (static_cast<std::size_t>(size) == sizeof text) return ENAMETOOLONG;
  into.assign(text, static_cast<std::size_t>(size));
  return 0;
}

}  // namespace copy
