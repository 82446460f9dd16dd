// Looks on while a run takes its time: a line on the terminal, Ctrl-C, and a watchdog.
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

// A thread of its own, which sleeps unless there is something to show or to watch; the measured thread
// need not look up. REQUIRES block_interrupts() before the first thread of the program began.
class watcher {
 public:
  struct subject {
    std::string what;                         // for the line
    std::function<std::uint64_t()> progress;  // called from the thread: grows while things go on
    std::function<double()> share;            // of all that is to be done
    std::function<void()> give_up;            // ends what hangs; called from the thread, once
    double watchdog_s = 0;                    // 0: none
  };
  enum class mode : std::uint8_t { silent, on_terminal };
  explicit watcher(mode m);
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  ~watcher();

  // From now on the first Ctrl-C only asks the run to end; a second one gives up: the subject, or,
  // while there is none, the program.
  static void block_interrupts() noexcept;

  void look_at(subject s);
  // On return nothing of the subject is used any more.
  void look_away();
  // From now on something is measured; before, and after pause(), both sides get ready, for which the
  // watchdog leaves them ten seconds more.
  void resume() noexcept { paused_.store(false); }
  void pause() noexcept { paused_.store(true); }

  // Somebody wants to see what was measured so far.
  [[nodiscard]] const std::atomic<bool>& asked_to_stop() const noexcept { return asked_; }
  // Why it gave up; empty where it did not.
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
  double still_s_ = 0;  // looked on without any progress
  std::uint64_t before_ = 0;
  bool was_paused_ = true;
  support::status_line line_;
  bool ending_ = false;
  std::string why_;
  std::thread thread_;
};

}  // namespace perf
