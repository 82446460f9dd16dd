// wait_set: the descriptors that a reactor sleeps on.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <sys/timerfd.h>
#include <unistd.h>

namespace cordma::detail {

// An epoll set of an eventfd, a timerfd, and what pollers add. Bound to one thread, except wake(). Both descriptors are
// watched for edges, and never read.
class wait_set {
 public:
  // Throws cordma::error (operating_system) where descriptors cannot be had.
  wait_set();

  // Of the epoll set.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
  [[nodiscard]] int timer_fd() const noexcept { return timer_.get(); }

  // False: errno says why.
  [[nodiscard]] bool add(int fd, bool edge) noexcept;
  void remove(int fd) noexcept;

  // Any thread, and signal handlers: makes fd() readable.
  void wake() const noexcept {
    const int saved = errno;
    const std::uint64_t one = 1;
    // The counter cannot overflow in practice, and EAGAIN would mean that it is readable anyway.
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
    errno = saved;
  }
  // Makes fd() readable at `when`. One timerfd rather than a timeout, so that a foreign loop that waits on fd() is woken
  // as well.
  void wake_at(time_point when, time_point now) noexcept {
    // Set already, and not fired yet: saves a system call in every sleep of a worker whose keep-alive
    // timers stand far off.
    if (when == timer_set_to_ && when > now) return;
    timer_set_to_ = when;
    set_timer(std::max(when - now, duration(1)));
  }
  // The same, once this time has passed, which is not 0.
  void set_timer(duration left) const noexcept {
    itimerspec spec{};
    spec.it_value.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    spec.it_value.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }

 private:
  unique_fd epoll_;
  unique_fd event_;
  unique_fd timer_;
  time_point timer_set_to_{never};
};

}  // namespace cordma::detail
