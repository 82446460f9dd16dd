// Ctrl-C during a measurement: the results so far are still reported.
#pragma once

#include <csignal>
#include <ctime>

namespace kv::cli {

// At most one exists at a time; it must be created before any thread that lives as long as it. The
// first SIGINT or SIGTERM is only recorded; the next one terminates the program.
class interrupts {
 public:
  interrupts() noexcept {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~interrupts() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  // Only on the thread that created it.
  [[nodiscard]] bool came() noexcept {
    if (came_) return true;
    const timespec at_once{};
    if (::sigtimedwait(&set_, nullptr, &at_once) < 0) return false;
    came_ = true;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    return true;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool came_ = false;
};

}  // namespace kv::cli
