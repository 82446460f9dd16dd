// The output of a transfer, for people and for programs.
#pragma once

#include "../../support/status_line.hpp"
#include "../transfer/progress.hpp"
#include "../transfer/sender.hpp"
#include "../transfer/session.hpp"
#include "options.hpp"

#include <cordma/runtime/stop.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace copy {

// Bound to the thread that constructed it. A separate thread shows progress and waits for Ctrl-C,
// SIGTERM and SIGHUP: the first signal ends the transfer in order, a second one at once. REQUIRES:
// block_interrupts() was called before the first thread began.
class report {
 public:
  static void block_interrupts() noexcept;
  explicit report(const request& r);
  report(const report&) = delete;
  report& operator=(const report&) = delete;
  ~report();

  [[nodiscard]] progress& counted() noexcept { return progress_; }
  [[nodiscard]] item_sink sink();
  [[nodiscard]] cordma::task<outcome> until_interrupted(cordma::task<outcome> t) {
    return cordma::with_stop(stop_.get_token(), std::move(t));
  }
  void connected(const connection& c);
  void lost(const std::string& why);
  void conclude(outcome o);
  void broke_off(const std::exception& e);
  [[nodiscard]] int exit_with() const noexcept { return static_cast<int>(code_); }

 private:
  // Messages for people; not on standard output if a file is copied to it.
  [[nodiscard]] std::FILE* out() const noexcept {
    return request_.target.is_standard_stream() ? stderr : stdout;
  }
  void watch();
  void show();
  [[nodiscard]] std::string way_on() const;
  void summarize();
  void write_json();

  const request& request_;
  progress progress_;
  [[nodiscard]] std::string way() const;
  std::string transport_;
  std::string cipher_;  // of TLS; empty without TLS
  std::string reason_;
  unsigned connections_ = 0;
  std::unordered_map<std::string, unsigned> told_;  // printed paths, and their connection
  std::optional<outcome> outcome_;
  std::string broken_;
  exit_code code_ = exit_code::fine;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> took_{0};
  std::stop_source stop_;
  std::atomic<bool> interrupted_{false};
  bool on_terminal_ = false;
  std::mutex screen_;
  support::status_line line_;
  cordma::unique_fd signals_;
  cordma::unique_fd over_;
  std::thread watcher_;
};

}  // namespace copy
