#include "watcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace perf {
namespace {

constexpr int look_ms = 250;    // interval of checks, if there is something to check
constexpr double quiet_s = 2;   // before the first line
constexpr double pause_s = 10;  // additional time of the watchdog while the sides prepare
constexpr int forever = -1;     // timeout of poll()
constexpr int exit_code = 128 + SIGINT;

sigset_t interrupts() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
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
  stirred_ = checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  thread_ = std::thread([this] { run(); });
}

watcher::~watcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  stir();
  thread_.join();
}

void watcher::stir() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(stirred_.get(), &one, sizeof one);
}

void watcher::look_at(subject s) {
  {
    const std::lock_guard lock(mutex_);
    subject_ = std::move(s);
    began_ = looked_at_ = clock::now();
    still_s_ = 0;
    paused_ = was_paused_ = true;
    before_ = subject_->progress();
  }
  stir();
}

void watcher::look_away() {
  const std::lock_guard lock(mutex_);
  subject_.reset();
  line_.hide();
}

std::string watcher::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void watcher::give_up(std::string why) {
  if (!why_.empty()) return;
  why_ = std::move(why);
  subject_->give_up();
}

void watcher::interrupted() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
  if (!asked_.exchange(true)) {
    std::fputs("\ncordma-perf: ending; once more to end at once\n", stderr);
    return;
  }
  if (!subject_) ::_exit(exit_code);  // it is connecting or closing the session
  give_up("interrupted twice");
}

void watcher::show(double seconds) {
  const double share = subject_->share();
  const double left = share > 0.01 ? seconds / share - seconds : -1;
  std::array<char, 64> text{};
  int n = std::snprintf(text.data(), text.size(), ": %3.0f %%", share * 100);
  if (left >= 0) {
    std::snprintf(text.data() + n, text.size() - static_cast<std::size_t>(n), ", %.0f s left",
                  left);
  }
  line_.show(subject_->what + text.data() + " ");
}

void watcher::look() {
  const std::uint64_t now = subject_->progress();
  const bool paused = paused_.load();
  const double patience_s = subject_->watchdog_s + (paused ? pause_s : 0);
  // A late check means that the machine stalled, not the peer.
  const double looked_on_s = std::min(seconds_since(looked_at_), 2e-3 * patience_ms());
  looked_at_ = clock::now();
  if (now != before_ || paused != was_paused_) {
    before_ = now;
    was_paused_ = paused;
    still_s_ = 0;
  } else if (subject_->watchdog_s > 0 && (still_s_ += looked_on_s) > patience_s) {
    char text[96];
    std::snprintf(text, sizeof text, "no progress for %g s, after %llu requests of this run",
                  patience_s, static_cast<unsigned long long>(now));
    give_up(text);
  }
  const double seconds = seconds_since(began_);
  if (mode_ == mode::on_terminal && seconds > quiet_s) show(seconds);
}

int watcher::patience_ms() const noexcept {
  if (!subject_) return forever;
  if (subject_->watchdog_s > 0) {
    constexpr double quarter_ms = 250;
    return std::min(look_ms, static_cast<int>(subject_->watchdog_s * quarter_ms) + 1);
  }
  return mode_ == mode::on_terminal ? look_ms : forever;
}

void watcher::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    pollfd fds[] = {{stirred_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    const int patience = patience_ms();
    lock.unlock();
    ::poll(fds, 2, patience);
    lock.lock();
    if (fds[0].revents != 0) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto n = ::read(stirred_.get(), &times, sizeof times);
    }
    if (fds[1].revents != 0) interrupted();
    if (subject_) look();
  }
}

}  // namespace perf
