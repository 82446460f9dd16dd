#include "unfinished.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

namespace {

using mark_bytes = std::array<char, unfinished_mark.size()>;

// 0, or errno.
int write_at(int fd, std::string_view text, off_t at) noexcept {
  const ssize_t n = ::pwrite(fd, text.data(), text.size(), at);
  if (n < 0) return errno;
  return static_cast<std::size_t>(n) == text.size() ? 0 : ENOSPC;
}

// What is there, as far as it can be read: `fd` is for writing alone.
std::string_view read_at(int fd, mark_bytes& into, off_t at) noexcept {
  std::array<char, 32> way{};
  std::snprintf(way.data(), way.size(), "/proc/self/fd/%d", fd);
  const cordma::unique_fd reading(::open(way.data(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const ssize_t n = reading ? ::pread(reading.get(), into.data(), into.size(), at) : 0;
  return {into.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace

int mark_unfinished(int fd, std::uint64_t size) noexcept {
  struct stat before{};
  if (::fstat(fd, &before) != 0) return errno;
  const auto at = static_cast<off_t>(size);
  if (before.st_size <= at) {
    if (const int why = write_at(fd, unfinished_mark, at); why != 0) return why;
    return cut_to(fd, size + unfinished_mark.size());
  }
  // Of one that is longer the end first: it ends with the mark at every moment, and where there is no room for that nothing
  // is lost.
  int why = write_at(fd, unfinished_mark, before.st_size);
  if (why == 0) {
    mark_bytes old{};
    const std::string_view was_there = read_at(fd, old, at);
    why = write_at(fd, unfinished_mark, at);
    if (why != 0) (void)write_at(fd, was_there, at);
  }
  if (why == 0) return cut_to(fd, size + unfinished_mark.size());
  [[maybe_unused]] const int cut = ::ftruncate(fd, before.st_size);
  return why;
}

int cut_to(int fd, std::uint64_t size) noexcept {
  return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
}

bool is_unfinished(int fd) noexcept {
  mark_bytes end{};
  struct stat s{};
  if (::fstat(fd, &s) != 0 || s.st_size < static_cast<off_t>(end.size())) return false;
  const off_t at = s.st_size - static_cast<off_t>(end.size());
  return ::pread(fd, end.data(), end.size(), at) == static_cast<ssize_t>(end.size()) &&
         std::string_view(end.data(), end.size()) == unfinished_mark;
}

}  // namespace copy
