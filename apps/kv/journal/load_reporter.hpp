// Reports the progress of a load: on a terminal in one line that is updated, and at intervals in
// the log.
#pragma once

#include "../../support/status_line.hpp"
#include "load.hpp"

#include <functional>
#include <string>
#include <utility>

namespace kv {

// Used by the loading thread.
class load_reporter {
 public:
  explicit load_reporter(std::function<void(const std::string&)> log)
      : log_(std::move(log)), terminal_(support::status_line::on_terminal()) {}
  void operator()(const load_progress& p) {
    const std::string text = p.text();
    if (terminal_) line_.show(text);
    if (p.seconds - logged_at_ < log_seconds) return;
    logged_at_ = p.seconds;
    log_("loading " + text);
  }

 private:
  static constexpr double log_seconds = 5;
  const std::function<void(const std::string&)> log_;
  const bool terminal_;
  support::status_line line_;
  double logged_at_ = 0;
};

}  // namespace kv
