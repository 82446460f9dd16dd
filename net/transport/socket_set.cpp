#include <cordma/net/transport/socket_set.hpp>

#include <array>
#include <cerrno>

#include <sys/epoll.h>

namespace cordma::transport {
namespace {

failure cannot_watch(int os_errno) noexcept {
  return failure::from_os(os_errno, "watching a socket (limit: fs.epoll.max_user_watches)");
}

}  // namespace

// ---- watched_socket ----

watched_socket::watched_socket(socket_set& set, socket_handler& owner)
    : set_(&set), owner_(&owner), place_(set.take_place(*this)) {}

watched_socket::~watched_socket() {
  close();
  leave_set();
}

void watched_socket::own(socket_fd fd) noexcept {
  CORDMA_REQUIRE(!fd_);
  fd_ = std::move(fd);
}

result<void> watched_socket::watch(std::uint32_t events) noexcept {
  CORDMA_REQUIRE(fd_ && set_ != nullptr);
  if (watched_ && events == events_) return {};
  const std::uint32_t before = std::exchange(events_, events);
  if (set_->control(watched_ ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, *this) == 0) {
    watched_ = true;
    return {};
  }
  events_ = before;
  CORDMA_ASSERT(!watched_);
  return cannot_watch(errno);
}

void watched_socket::unwatch() noexcept {
  if (!watched_) return;
  watched_ = false;
  ++set_->places_[place_].generation;
  // A child of fork() shares the set with its parent.
  if (!fd_.inherited()) set_->control(EPOLL_CTL_DEL, *this);
}

void watched_socket::close() noexcept {
  unwatch();
  fd_.close();
}

void watched_socket::reset_connection() noexcept {
  unwatch();
  fd_.reset_connection();
}

socket_fd watched_socket::release() noexcept {
  unwatch();
  return std::move(fd_);
}

void watched_socket::leave_set() noexcept {
  unwatch();
  CORDMA_ASSERT(!watched_);
  if (set_ != nullptr) std::exchange(set_, nullptr)->give_place(place_);
}

// ---- socket_set ----

std::uint32_t socket_set::take_place(watched_socket& who) {
  if (first_free_ == none_free) {
    places_.push_back({.next_free = none_free});
    first_free_ = static_cast<std::uint32_t>(places_.size() - 1);
  }
  const std::uint32_t at = first_free_;
  CORDMA_ASSERT_OP(at, <, places_.size());
  CORDMA_ASSERT(places_[at].who == nullptr);
  first_free_ = places_[at].next_free;
  places_[at].who = &who;
  return at;
}

void socket_set::give_place(std::uint32_t at) noexcept {
  CORDMA_ASSERT_OP(at, <, places_.size());
  CORDMA_ASSERT(places_[at].who != nullptr);
  places_[at].who = nullptr;
  ++places_[at].generation;
  places_[at].next_free = std::exchange(first_free_, at);
}

int socket_set::control(int operation, const watched_socket& of) noexcept {
  CORDMA_ASSERT_OP(of.place_, <, places_.size());
  CORDMA_ASSERT(places_[of.place_].who == &of);
  epoll_event e{};
  e.events = of.events_;
  e.data.u64 = std::uint64_t{places_[of.place_].generation} << 32 | of.place_;
  return ::epoll_ctl(epoll_.get(), operation, of.get(), &e);
}

result<void> socket_set::add_wake_up(int fd, std::uint32_t events) noexcept {
  epoll_event e{};
  e.events = events;
  e.data.u64 = no_place;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) return cannot_watch(errno);
  return {};
}

socket_set::looked socket_set::look() noexcept {
  std::array<epoll_event, most_ready> ready;
  const int n = ::epoll_wait(epoll_.get(), ready.data(), most_ready, 0);
  looked found{.any = n > 0};
  for (int i = 0; i < n; ++i) {
    const epoll_event& e = ready[static_cast<std::size_t>(i)];
    const std::uint64_t at = e.data.u64 & UINT32_MAX;
    if (e.data.u64 == no_place || at >= places_.size()) continue;
    const place& p = places_[at];
    // An earlier handler of this look() may have closed it.
    if (p.who == nullptr || p.generation != e.data.u64 >> 32) continue;
    found.called = true;
    p.who->owner_->on_ready(e.events);
  }
  return found;
}

}  // namespace cordma::transport
