// Tells people how far a load is: on a terminal in one line that changes, in the log now and then.
#pragma once

#include "load.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include <unistd.h>

namespace kv {

// Used by the thread that loads.
class load_reporter {
 public:
  explicit load_reporter(std::function<void(const std::string&)> log)
      : log_(std::move(log)), terminal_(::isatty(STDERR_FILENO) == 1) {}
  load_reporter(const load_reporter&) = delete;
  load_reporter& operator=(const load_reporter&) = delete;
  ~load_reporter() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

  void operator()(const load_progress& p) {
    const std::string text = p.text();
    if (terminal_) {
      std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
      std::fflush(stderr);
      shown_ = true;
    }
    if (p.seconds - logged_at_ < log_seconds) return;
    logged_at_ = p.seconds;
    log_("loading " + text);
  }

 private:
  static constexpr double log_seconds = 5;
  const std::function<void(const std::string&)> log_;
  const bool terminal_;
  bool shown_ = false;
  double logged_at_ = 0;
};

}  // namespace kv
