#include "watcher.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace perf {
namespace {

using clock = std::chrono::steady_clock;

constexpr int look_ms = 250;   // between two looks, where there is something to look at
constexpr double quiet_s = 2;  // before the first line
constexpr int forever = -1;    // poll()

sigset_t interrupts() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

double seconds_since(clock::time_point t) {
  return std::chrono::duration<double>(clock::now() - t).count();
}

cordma::unique_fd checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return cordma::unique_fd(fd);
}

}  // namespace

void watcher::block_interrupts() noexcept {
  const sigset_t set = interrupts();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

watcher::watcher(mode m) : mode_(m) {
  const sigset_t set = interrupts();
  signals_ = checked(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  stopping_ = checked(::eventfd(0, EFD_CLOEXEC), "eventfd");
}

void watcher::start(subject s) {
  thread_ = std::thread([this, s = std::move(s)] { watch(s); });
}

void watcher::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(stopping_.get(), &one, sizeof one);
  thread_.join();
}

std::string watcher::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void watcher::give_up(const subject& s, std::string why) {
  if (gave_up_) return;
  gave_up_ = true;
  {
    const std::lock_guard lock(mutex_);
    why_ = std::move(why);
  }
  s.give_up();
}

// False where nobody pressed Ctrl-C.
bool watcher::interrupted(const subject& s) {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return false;
  if (asked_.exchange(true)) {
    give_up(s, "interrupted twice");
  } else {
    std::fputs("\ncordma-perf: ending; once more to end at once\n", stderr);
  }
  return true;
}

void watcher::show(const subject& s, double seconds) {
  const double share = s.share();
  const double left = share > 0.01 ? seconds / share - seconds : -1;
  if (left >= 0) {
    std::fprintf(stderr, "\r%s: %3.0f %%, %.0f s left \x1b[K", s.what.c_str(), share * 100, left);
  } else {
    std::fprintf(stderr, "\r%s: %3.0f %% \x1b[K", s.what.c_str(), share * 100);
  }
  shown_ = true;
}

void watcher::watch(const subject& s) {
  const bool looks = mode_ == mode::on_terminal || s.watchdog_s > 0;
  const clock::time_point began = clock::now();
  clock::time_point moved_at = began;
  std::uint64_t before = s.progress();
  for (;;) {
    pollfd fds[] = {{stopping_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    const int limit =
        s.watchdog_s > 0 ? std::min(look_ms, static_cast<int>(s.watchdog_s * 250) + 1) : look_ms;
    ::poll(fds, 2, looks ? limit : forever);
    if (fds[0].revents != 0) break;
    if (fds[1].revents != 0 && interrupted(s)) continue;
    const std::uint64_t now = s.progress();
    if (now != before || !watching_.load()) {
      before = now;
      moved_at = clock::now();
    } else if (s.watchdog_s > 0 && seconds_since(moved_at) > s.watchdog_s) {
      char text[96];
      std::snprintf(text, sizeof text, "no progress for %g s, after %llu requests of this phase",
                    s.watchdog_s, static_cast<unsigned long long>(now));
      give_up(s, text);
    }
    const double seconds = seconds_since(began);
    if (mode_ == mode::on_terminal && seconds > quiet_s) show(s, seconds);
  }
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

}  // namespace perf
