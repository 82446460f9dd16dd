// Looks on while a run takes its time: a line on the terminal, Ctrl-C, and a watchdog.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
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
  ~watcher() { stop(); }

  // From now on Ctrl-C only asks the run to end; a second one gives up.
  static void block_interrupts() noexcept;

  void start(subject s);
  void stop();
  // Progress counts from now on; before, and after pause(), silence is none of the watchdog's business.
  void resume() noexcept { watching_.store(true); }
  void pause() noexcept { watching_.store(false); }

  // Somebody wants to see what was measured so far.
  [[nodiscard]] const std::atomic<bool>& asked_to_stop() const noexcept { return asked_; }
  // Why it gave up; empty where it did not.
  [[nodiscard]] std::string why() const;

 private:
  void watch(const subject& s);
  void show(const subject& s, double seconds);
  [[nodiscard]] bool interrupted(const subject& s);
  void give_up(const subject& s, std::string why);

  const mode mode_;
  cordma::unique_fd signals_;
  cordma::unique_fd stopping_;
  std::atomic<bool> asked_{false};
  std::atomic<bool> watching_{false};
  bool shown_ = false;
  bool gave_up_ = false;
  mutable std::mutex mutex_;  // of why_
  std::string why_;
  std::thread thread_;
};

}  // namespace perf
