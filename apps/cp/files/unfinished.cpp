#include "unfinished.hpp"

#include "resolved.hpp"
#include "write_at.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

namespace {

int write_text(int fd, std::string_view text, std::uint64_t at) noexcept {
  return write_at(fd, std::as_bytes(std::span(text)), at);
}

}  // namespace

// Saves the present bytes, if they can be read: `fd_` is open for writing only.
void marking::keep(kept& what, std::uint64_t at) noexcept {
  const cordma::unique_fd reading = open_again(fd_, O_RDONLY);
  const ssize_t n =
      reading ? ::pread(reading.get(), what.bytes.data(), what.bytes.size(), static_cast<off_t>(at))
              : 0;
  what.at = at;
  what.size = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
}

int marking::begin() noexcept {
  struct stat before{};
  if (::fstat(fd_, &before) != 0) return errno;
  length_ = static_cast<std::uint64_t>(before.st_size);
  const std::uint64_t shortest = size_ + unfinished_mark.size();
  std::uint64_t at = size_;
  // In a longer file the end is marked first, over existing bytes if there are enough, because
  // there may be no free space behind them.
  if (length_ > size_) {
    at = std::max(length_, shortest);
    if (length_ >= shortest + unfinished_mark.size()) keep(last_, length_ - unfinished_mark.size());
    // Bytes that cannot be restored are not overwritten.
    if (last_.size == unfinished_mark.size()) at = last_.at;
  }
  const int why = write_text(fd_, unfinished_mark, at);
  if (why != 0) undo();
  return why;
}

int marking::end() noexcept {
  if (length_ <= size_) return 0;
  keep(first_, size_);
  int why = write_text(fd_, unfinished_mark, size_);
  if (why == 0) why = cut_to(fd_, size_ + unfinished_mark.size());
  if (why != 0) undo();
  return why;
}

void marking::undo() noexcept {
  for (const kept& k : {first_, last_}) {
    (void)write_text(fd_, {k.bytes.data(), k.size}, k.at);
  }
  (void)cut_to(fd_, length_);
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
