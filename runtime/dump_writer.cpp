#include <cordma/runtime/dump_writer.hpp>

#include <cerrno>
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace cordma {

void dump_writer::put(char c) noexcept {
  // A line longer than the buffer is cut.
  if (used_ + 1 >= buffer_.size()) {
    if (line_begin_ == 0) return;
    const std::size_t begin = line_begin_;
    const std::size_t line = used_ - begin;
    flush();
    for (std::size_t i = 0; i < line; ++i) buffer_[i] = buffer_[begin + i];
    used_ = line;
  }
  buffer_[used_++] = c;
}

dump_writer& dump_writer::operator<<(std::string_view text) noexcept {
  for (const char c : text) put(c);
  return *this;
}

dump_writer& dump_writer::operator<<(std::uint64_t number) noexcept {
  std::array<char, 20> digits;
  std::size_t n = 0;
  do {
    digits[n++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (n > 0) put(digits[--n]);
  return *this;
}

dump_writer& dump_writer::operator<<(int number) noexcept {
  const auto wide = static_cast<std::int64_t>(number);
  if (wide < 0) put('-');
  return *this << static_cast<std::uint64_t>(wide < 0 ? -wide : wide);
}

dump_writer& dump_writer::operator<<(const void* address) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  *this << "0x";
  bool begun = false;
  for (int shift = 60; shift >= 0; shift -= 4) {
    const auto digit = static_cast<unsigned>(value >> shift & 15U);
    begun = begun || digit != 0 || shift == 0;
    if (begun) put("0123456789abcdef"[digit]);
  }
  return *this;
}

dump_writer& dump_writer::operator<<(duration time) noexcept {
  if (time < duration::zero()) {
    put('-');
    time = -time;
  }
  const auto ns = static_cast<std::uint64_t>(time.count());
  if (ns < 10'000) return *this << ns << " ns";
  if (ns < 10'000'000) return *this << ns / 1000 << " us";
  if (ns < 10'000'000'000) return *this << ns / 1'000'000 << " ms";
  return *this << ns / 1'000'000'000 << " s";
}

namespace {

constexpr std::string_view unnamed_of_clang = "(anonymous namespace)";
constexpr std::string_view unnamed_of_gcc = "{anonymous}";

// The position of the '(' that begins the parameters, or the end.
std::size_t parameters_of(std::string_view pretty) noexcept {
  int depth = 0;
  for (std::size_t i = 0; i < pretty.size(); ++i) {
    const char c = pretty[i];
    if (pretty.substr(i).starts_with(unnamed_of_clang)) {
      i += unnamed_of_clang.size() - 1;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>') {
      --depth;
    } else if (c == '(' && depth <= 0) {
      return i;
    }
  }
  return pretty.size();
}

// The position behind the space in front of the name.
std::size_t name_in(std::string_view head) noexcept {
  int depth = 0;
  for (std::size_t i = head.size(); i-- > 0;) {
    const char c = head[i];
    const std::string_view up_to_here = head.substr(0, i + 1);
    if (up_to_here.ends_with(unnamed_of_clang)) {
      i -= unnamed_of_clang.size() - 1;
    } else if (c == '>') {
      ++depth;
    } else if (c == '<') {
      --depth;
    } else if ((c == ' ' || c == '*' || c == '&') && depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

dump_writer& dump_writer::function(std::string_view pretty) noexcept {
  const std::string_view head = pretty.substr(0, parameters_of(pretty));
  std::string_view rest = head.substr(name_in(head));
  // Each compiler spells an unnamed namespace differently.
  while (!rest.empty()) {
    for (const std::string_view unnamed : {unnamed_of_clang, unnamed_of_gcc}) {
      if (!rest.starts_with(unnamed)) continue;
      rest.remove_prefix(unnamed.size());
      if (rest.starts_with("::")) rest.remove_prefix(2);
    }
    if (rest.empty()) break;
    put(rest.front());
    rest.remove_prefix(1);
  }
  return *this;
}

dump_writer& dump_writer::file(std::string_view path) noexcept {
  int slashes = 0;
  std::size_t i = path.size();
  for (; i > 0; --i) {
    if (path[i - 1] == '/' && ++slashes == 2) break;
  }
  return *this << path.substr(i);
}

void dump_writer::end_line() noexcept {
  if (lines_left_ == 0) {
    used_ = line_begin_;
    return;
  }
  --lines_left_;
  // put() leaves space for one more character.
  buffer_[used_++] = '\n';
  line_begin_ = used_;
  if (used_ > buffer_.size() / 2) flush();
}

namespace {

// Blocks SIGPIPE for this thread: a write to a pipe or socket without a reader only fails with
// EPIPE.
class no_sigpipe {
 public:
  no_sigpipe() noexcept {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  no_sigpipe(const no_sigpipe&) = delete;
  no_sigpipe& operator=(const no_sigpipe&) = delete;
  ~no_sigpipe() {
    // Also if the program ignores the signal: it is never pending then.
    constexpr timespec at_once{};
    if (!was_pending_) {
      while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {}
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace

void dump_writer::flush() noexcept {
  const char* from = buffer_.data();
  std::size_t left = line_begin_;
  used_ = line_begin_ = 0;
  if (fd_ < 0) {
    for (; left > 0 && in_room_ < room_.size(); --left) room_[in_room_++] = *from++;
    return;
  }
  if (left == 0) return;
  const no_sigpipe guard;
  while (left > 0) {
    const ssize_t n = ::write(fd_, from, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {  // the rest is lost
      if (error_ == 0) error_ = errno;
      return;
    }
    from += n;
    left -= static_cast<std::size_t>(n);
  }
}

}  // namespace cordma
