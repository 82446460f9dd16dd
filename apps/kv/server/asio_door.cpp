#include "asio_door.hpp"

#include <array>
#include <cerrno>
#include <exception>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace kv {
namespace {

constexpr int most_accepted = 64;  // connections of one listener per event, for fairness
constexpr int most_received = 4;   // buffers of one client per event
constexpr int most_ready = 256;    // sockets per epoll_wait()
// The data of an epoll event: the index of a client, or the index of a listener plus this bit.
constexpr std::uint64_t of_listener = std::uint64_t{1} << 32;

[[nodiscard]] bool would_block(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK;
}

[[nodiscard]] int new_set() {
  const int made = ::epoll_create1(EPOLL_CLOEXEC);
  if (made < 0) cordma::throw_error(cordma::failure::from_os(errno, "epoll_create1"));
  return made;
}

}  // namespace

std::unique_ptr<front_door> make_asio_door(cordma::reactor& loop, const door_settings& settings) {
  return std::make_unique<asio_door>(loop, settings);
}

asio_door::asio_door(cordma::reactor& loop, const door_settings& settings)
    : common_door(loop, settings),
      // Nearly all work of this worker arrives through Asio, so it is polled in every pass.
      host_(loop, {.passes = 0, .interval = cordma::duration::zero()}),
      set_(host_.context(), new_set()),
      buffer_(std::make_unique<char[]>(buffer_bytes)),
      later_(*this) {
  wait();
}

asio_door::~asio_door() {
  stop_listening();
  later_.unlink();
}

// Readiness.

// Waits again only after all events found have been handled. Otherwise Asio would report the same
// events again and starve other work.
void asio_door::wait() {
  waiting_ = true;
  loop_.expect_work();
  set_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& ec) {
    waiting_ = false;
    if (ec) return;
    look();
    expect();
  });
}

void asio_door::tend() {
  tend_noted();
  if (!waiting_) wait();
}

void asio_door::look() noexcept {
  std::array<epoll_event, most_ready> events;
  counters_.kernel_calls.add();
  const int n = ::epoll_wait(set_.native_handle(), events.data(), most_ready, 0);
  for (int i = 0; i < n; ++i) {
    const epoll_event& e = events[static_cast<std::size_t>(i)];
    const std::uint64_t index = e.data.u64 & (of_listener - 1);
    if (e.data.u64 >= of_listener) {
      accept_some(listeners_[index], index);
    } else {
      ready(*slots_[index], e.events);  // clients end in tend_noted(), which is later
    }
  }
}

// Returns 0, or an errno on failure.
int asio_door::watch(int change, int socket, std::uint32_t events, std::uint64_t whose) noexcept {
  epoll_event e{};
  e.events = events;
  e.data.u64 = whose;
  counters_.kernel_calls.add();
  return ::epoll_ctl(set_.native_handle(), change, socket, &e) == 0 ? 0 : errno;
}

// Accepting.

void asio_door::listen(int socket, arrival here, complaint cannot, void* context) {
  listeners_.push_back({.socket = socket, .here = here, .cannot = cannot, .context = context});
  const int error =
      watch(EPOLL_CTL_ADD, socket, EPOLLIN, of_listener | std::uint64_t{listeners_.size() - 1});
  if (error != 0) cordma::throw_error(cordma::failure::from_os(error, "epoll_ctl"));
}

void asio_door::accept_some(listener& l, std::uint64_t index) noexcept {
  for (int i = 0; i < most_accepted && l.here != nullptr; ++i) {
    counters_.kernel_calls.add();
    cordma::unique_fd came(::accept4(l.socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (came) {
      counters_.accepted.add();
      l.here(l.context, std::move(came));
      continue;
    }
    if (would_block(errno)) return;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    const int error = errno;
    l.failed = watch(EPOLL_CTL_MOD, l.socket, 0, of_listener | index) == 0;
    return l.cannot(l.context, error);
  }
}

void asio_door::accept_again() noexcept {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    listener& l = listeners_[i];
    if (l.failed) l.failed = watch(EPOLL_CTL_MOD, l.socket, EPOLLIN, of_listener | i) != 0;
  }
}

void asio_door::stop_listening() noexcept {
  for (listener& l : listeners_) {
    if (l.here != nullptr) static_cast<void>(watch(EPOLL_CTL_DEL, l.socket, 0, 0));
    l.here = nullptr;
    l.failed = false;
  }
}

std::unique_ptr<asio_client> asio_door::make_client(std::uint32_t index, cordma::unique_fd socket) {
  return std::make_unique<asio_client>(*this, index, std::move(socket));
}

// Receiving and sending.

void asio_door::ready(asio_client& c, std::uint32_t events) noexcept {
  if ((events & EPOLLOUT) != 0) c.full = false;
  if ((*c.watched & EPOLLIN) != 0) {
    receive(c);
  } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    close(c);  // no peer is left to notify
  }
  note(c);
}

void asio_door::receive(asio_client& c) noexcept try {
  for (int i = 0; i < most_received && !c.closing && is_wanted(c); ++i) {
    if (!receive_once(c)) return;
  }
} catch (const std::exception&) {
  close(c);
}

// Returns true if more bytes may be readable.
bool asio_door::receive_once(asio_client& c) {
  const std::span<char> room = c.talk->room();
  const std::span<char> to = room.empty() ? std::span(buffer_.get(), buffer_bytes) : room;
  counters_.kernel_calls.add();
  const ssize_t n = ::recv(c.socket.get(), to.data(), to.size(), MSG_DONTWAIT);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (!would_block(errno)) close(c);
    return false;
  }
  const auto bytes = static_cast<std::size_t>(n);
  came(c, bytes);
  if (bytes == 0) {
    c.said_all = true;
  } else if (room.empty()) {
    c.talk->received(to.first(bytes));
  } else {
    c.talk->arrived(bytes);
  }
  return bytes == to.size();
}

void asio_door::send(asio_client& c) noexcept {
  for (;;) {
    const std::span<const char> pending = c.talk->pending();
    if (pending.empty()) return;
    counters_.kernel_calls.add();
    const ssize_t n =
        ::send(c.socket.get(), pending.data(), pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      went(c, static_cast<std::size_t>(n));
    } else if (would_block(errno)) {
      c.full = true;
      return;
    } else if (errno != EINTR) {
      return close(c);
    }
  }
}

// Changes the epoll registration only if the events differ.
void asio_door::mind_input(asio_client& c, bool wanted) noexcept {
  std::uint32_t events = wanted ? EPOLLIN : 0U;
  if (c.full) events |= EPOLLOUT;
  if (c.watched == events) return;
  const int change = c.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  c.watched = events;
  if (watch(change, c.socket.get(), events, c.index) == 0) return;
  close(c);  // out of memory: the socket cannot be waited for
}

void asio_door::shut(asio_client& c) noexcept { c.socket.reset(); }

void asio_door::expect() noexcept {
  if (!later_.linked()) loop_.ready(later_);
}

}  // namespace kv
