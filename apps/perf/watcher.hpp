// Observes a run: a line on the terminal, Ctrl-C, and a watchdog.
#pragma once

#include "../support/status_line.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace perf {

// Has a separate thread, which sleeps unless there is something to show or watch; the measured
// thread is not disturbed. REQUIRES block_interrupts() before the first thread of the program
// began.
class watcher {
 public:
  struct subject {
    std::string what;  // name for the line
    // called on the watcher's thread; increases while there is progress
    std::function<std::uint64_t()> progress;
    std::function<double()> share;  // done share of the total
    // ends a hanging run; called once, on the watcher's thread
    std::function<void()> give_up;
    double watchdog_s = 0;  // 0: none
  };
  enum class mode : std::uint8_t { silent, on_terminal };
  explicit watcher(mode m);
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  ~watcher();

  // From this call on the first Ctrl-C only requests the end of the run. A second one gives up: it
  // ends the subject, or the program if there is no subject.
  static void block_interrupts() noexcept;

  void look_at(subject s);
  // On return the subject is no longer used.
  void look_away();
  // resume() begins a measurement. Before it, and after pause(), both sides prepare; the watchdog
  // then waits ten seconds longer.
  void resume() noexcept { paused_.store(false); }
  void pause() noexcept { paused_.store(true); }

  // True if intermediate results were requested.
  [[nodiscard]] const std::atomic<bool>& asked_to_stop() const noexcept { return asked_; }
  // Why it gave up; empty if it did not.
  [[nodiscard]] std::string why() const;

 private:
  using clock = std::chrono::steady_clock;
  // All but the thread's loop REQUIRE the mutex.
  void run();
  void stir() noexcept;
  void look();
  void show(double seconds);
  void interrupted();
  void give_up(std::string why);
  [[nodiscard]] int patience_ms() const noexcept;

  const mode mode_;
  cordma::unique_fd signals_;
  cordma::unique_fd stirred_;
  std::atomic<bool> asked_{false};
  std::atomic<bool> paused_{true};
  mutable std::mutex mutex_;
  std::optional<subject> subject_;
  clock::time_point began_;
  clock::time_point looked_at_;
  double still_s_ = 0;  // seconds observed without progress
  std::uint64_t before_ = 0;
  bool was_paused_ = true;
  support::status_line line_;
  bool ending_ = false;
  std::string why_;
  std::thread thread_;
};

}  // namespace perf
