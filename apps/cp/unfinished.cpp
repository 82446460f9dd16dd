#include "unfinished.hpp"

#include "resolved.hpp"
#include "write_at.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

namespace {

using mark_bytes = std::array<char, unfinished_mark.size()>;

int write_text(int fd, std::string_view text, std::uint64_t at) noexcept {
  return write_at(fd, std::as_bytes(std::span(text)), at);
}

// What is there, as far as it can be read: `fd` is for writing alone.
std::string_view read_text(int fd, mark_bytes& into, std::uint64_t at) noexcept {
  const cordma::unique_fd reading = open_again(fd, O_RDONLY);
  const ssize_t n =
      reading ? ::pread(reading.get(), into.data(), into.size(), static_cast<off_t>(at)) : 0;
  return {into.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace

int mark_unfinished(int fd, std::uint64_t size) noexcept {
  struct stat before{};
  if (::fstat(fd, &before) != 0) return errno;
  const auto length = static_cast<std::uint64_t>(before.st_size);
  if (length <= size) {
    if (const int why = write_text(fd, unfinished_mark, size); why != 0) return why;
    return cut_to(fd, size + unfinished_mark.size());
  }
  // Of one that is longer the end first: it ends with the mark at every moment, and where there is no room for that nothing
  // is lost.
  int why = write_text(fd, unfinished_mark, length);
  if (why == 0) {
    mark_bytes old{};
    const std::string_view was_there = read_text(fd, old, size);
    why = write_text(fd, unfinished_mark, size);
    if (why != 0) (void)write_text(fd, was_there, size);
  }
  if (why == 0) return cut_to(fd, size + unfinished_mark.size());
  (void)cut_to(fd, length);
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
