#include <cordma/runtime/wait_set.hpp>

#include <cordma/runtime/result.hpp>

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace cordma::detail {

wait_set::wait_set() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_) event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event_) timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_ || !add(event_.get(), true) || !add(timer_.get(), true)) {
    throw_error(failure::from_os(errno, "creating a reactor, which needs three file descriptors"));
  }
}

bool wait_set::add(int fd, bool edge) noexcept {
  epoll_event e{};
  e.events = edge ? (EPOLLIN | static_cast<std::uint32_t>(EPOLLET)) : EPOLLIN;
  e.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) == 0;
}

void wait_set::remove(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

}  // namespace cordma::detail
