#include "unfinished.hpp"

#include <array>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

namespace copy {

int mark_unfinished(int fd, std::uint64_t size) noexcept {
  const std::string_view mark = unfinished_mark;
  // Before anything else of the file changes.
  const ssize_t n = ::pwrite(fd, mark.data(), mark.size(), static_cast<off_t>(size));
  if (n < 0) return errno;
  if (static_cast<std::size_t>(n) != mark.size()) return ENOSPC;
  return cut_to(fd, size + mark.size());
}

int cut_to(int fd, std::uint64_t size) noexcept {
  return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
}

bool is_unfinished(int fd) noexcept {
  std::array<char, unfinished_mark.size()> end{};
  struct stat s{};
  if (::fstat(fd, &s) != 0 || s.st_size < static_cast<off_t>(end.size())) return false;
  const off_t at = s.st_size - static_cast<off_t>(end.size());
  return ::pread(fd, end.data(), end.size(), at) == static_cast<ssize_t>(end.size()) &&
         std::string_view(end.data(), end.size()) == unfinished_mark;
}

}  // namespace copy
