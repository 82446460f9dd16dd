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

// An epoll set of an eventfd, a timerfd, and the descriptors of pollers. Bound to one thread,
// except wake(). The eventfd and the timerfd are watched for edges, and never read.
class wait_set {
 public:
  // Throws cordma::error (operating_system) if descriptors cannot be allocated.
  wait_set();

  // The descriptor of the epoll set.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
  [[nodiscard]] int timer_fd() const noexcept { return timer_.get(); }

  // False on failure, with the reason in errno.
  [[nodiscard]] bool add(int fd, bool edge) noexcept;
  void remove(int fd) noexcept;

  // Any thread, and signal handlers: makes fd() readable.
  void wake() const noexcept {
    const int saved = errno;
    const std::uint64_t one = 1;
    // The counter cannot overflow in practice, and on EAGAIN it would be readable anyway.
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
    errno = saved;
  }
  // Makes fd() readable at `when`. One timerfd rather than a timeout, so that a foreign loop that waits on fd() is woken
  // as well.
  void wake_at(time_point when, time_point now) noexcept {
    // The timer is set to this time and has not fired: this check saves a system call in every
    // sleep of a worker with far keep-alive timers.
    if (when == timer_set_to_ && when > now) return;
    timer_set_to_ = when;
    set_timer(std::max(when - now, duration(1)));
  }
  // Sets the timer to fire after `left`, which is not 0.
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
