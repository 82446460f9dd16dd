// One line on the terminal that is updated during a long operation.
#pragma once

#include <cstdio>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

namespace support {

// Written to standard error; the destructor removes it. Not thread-safe.
class status_line {
 public:
  status_line() = default;
  status_line(const status_line&) = delete;
  status_line& operator=(const status_line&) = delete;
  ~status_line() { hide(); }

  // True if standard error is a terminal.
  [[nodiscard]] static bool on_terminal() noexcept { return ::isatty(STDERR_FILENO) == 1; }
  // Columns for the text.
  [[nodiscard]] static std::size_t width() noexcept {
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1U : 79U;
  }

  void show(const std::string& text) noexcept {
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
    shown_ = true;
  }
  void hide() noexcept {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  bool shown_ = false;
};

}  // namespace support
