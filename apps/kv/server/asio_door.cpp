#include "asio_door.hpp"

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>

#include <sys/socket.h>

namespace kv {
namespace {

constexpr int most_accepted = 64;  // at a time, before others have their turn
constexpr int most_received = 4;   // likewise, buffers of one client

[[nodiscard]] bool would_block(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

std::unique_ptr<front_door> make_asio_door(cordma::reactor& loop, const door_settings& settings) {
  return std::make_unique<asio_door>(loop, settings);
}

asio_door::asio_door(cordma::reactor& loop, const door_settings& settings)
    : loop_(loop),
      settings_(settings),
      // Nearly all that this worker does comes by way of Asio, so it is asked in each pass.
      host_(loop, {.passes = 0, .interval = cordma::duration::zero()}),
      buffer_(std::make_unique<char[]>(buffer_bytes)),
      later_(*this),
      tick_(*this) {
  loop_.add(tick_, loop_.now() + std::chrono::seconds(1));
}

asio_door::~asio_door() {
  stop_listening();
  later_.unlink();
}

// Clients come.

void asio_door::listen(int socket, arrival here, complaint cannot, void* context) {
  listeners_.push_back(std::make_unique<listener>(host_.context(), socket, here, cannot, context));
  accept_on(*listeners_.back());
}

void asio_door::accept_on(listener& l) {
  l.failed = false;
  l.waiting = true;
  loop_.expect_work();
  l.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this, &l](const std::error_code& ec) {
                            l.waiting = false;
                            if (l.here == nullptr || ec) return;
                            accept_some(l);
                            if (!l.failed) accept_on(l);
                          });
}

void asio_door::accept_some(listener& l) noexcept {
  for (int i = 0; i < most_accepted; ++i) {
    counters_.kernel_calls.add();
    const int socket = l.descriptor.native_handle();
    cordma::unique_fd came(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (came) {
      counters_.accepted.add();
      l.here(l.context, std::move(came));
      continue;
    }
    if (would_block(errno)) return;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    l.failed = true;
    return l.cannot(l.context, errno);
  }
}

void asio_door::stop_listening() noexcept {
  for (const std::unique_ptr<listener>& l : listeners_) {
    l->here = nullptr;
    l->failed = false;
    if (l->descriptor.is_open()) l->descriptor.release();  // the caller's
  }
  loop_.expect_work();
}

void asio_door::adopt(cordma::unique_fd socket, session_origin origin,
                      const conversation_maker& maker) noexcept try {
  if (free_.empty()) {
    slots_.push_back(nullptr);
    free_.reserve(slots_.size());  // giving one back needs no memory
    noted_.reserve(slots_.size());
    looking_.reserve(slots_.size());
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  auto made = std::make_unique<client>(*this, free_.back());
  client& c = *made;
  c.talk = maker(std::move(origin), &woken, &c);
  c.descriptor.assign(socket.get());
  static_cast<void>(socket.release());
  c.active = second_;
  slots_[c.index] = std::move(made);
  free_.pop_back();
  ++clients_;
  note(c);
} catch (const std::exception&) {
  counters_.closed.add();  // no memory for it, and none for a word about it
}

// Bytes come and go.

void asio_door::wait_for(client& c, direction d) noexcept try {
  (d == direction::in ? c.receiving : c.full) = true;
  ++c.operations;
  loop_.expect_work();
  c.descriptor.async_wait(d == direction::in ? asio::posix::stream_descriptor::wait_read
                                             : asio::posix::stream_descriptor::wait_write,
                          [this, &c, d](const std::error_code& ec) { ready(c, d, ec); });
} catch (const std::exception&) {  // no memory: there is no waiting then
  (d == direction::in ? c.receiving : c.full) = false;
  --c.operations;
  close(c);
}

void asio_door::ready(client& c, direction d, const std::error_code& ec) noexcept {
  (d == direction::in ? c.receiving : c.full) = false;
  --c.operations;
  if (ec && ec != asio::error::operation_aborted) close(c);
  if (!c.closing && d == direction::in) receive(c);
  tend(c);
}

void asio_door::receive(client& c) noexcept try {
  for (int i = 0; i < most_received; ++i) {
    const bool wanted = reading_ && c.talk->ended() == session::ending::no && c.talk->wants_input();
    if (!wanted || !receive_once(c)) return;
  }
} catch (const std::exception&) {
  close(c);
}

// Whether there may be more.
bool asio_door::receive_once(client& c) {
  const std::span<char> room = c.talk->room();
  const std::span<char> to = room.empty() ? std::span(buffer_.get(), buffer_bytes) : room;
  counters_.kernel_calls.add();
  const ssize_t n = ::recv(c.descriptor.native_handle(), to.data(), to.size(), MSG_DONTWAIT);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (!would_block(errno)) close(c);
    return false;
  }
  if (n == 0) {
    c.said_all = true;
    return false;
  }
  const auto bytes = static_cast<std::size_t>(n);
  counters_.received_bytes.add(bytes);
  c.active = second_;
  if (room.empty()) {
    c.talk->received(to.first(bytes));
  } else {
    c.talk->arrived(bytes);
  }
  return bytes == to.size();
}

void asio_door::send(client& c) noexcept {
  for (;;) {
    const std::span<const char> pending = c.talk->pending();
    if (pending.empty()) return;
    counters_.kernel_calls.add();
    const ssize_t n = ::send(c.descriptor.native_handle(), pending.data(), pending.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && would_block(errno)) return wait_for(c, direction::out);
    if (n < 0) return close(c);
    counters_.sent_bytes.add(static_cast<std::size_t>(n));
    c.talk->sent(static_cast<std::size_t>(n));
  }
}

// What is to be done next for one of them.

void asio_door::go_on(client& c) noexcept try {
  if (std::exchange(c.woken, false)) c.talk->resume();
} catch (const std::exception&) {
  close(c);
}

void asio_door::tend(client& c) noexcept {
  if (!c.closing) go_on(c);
  if (!c.closing && c.talk->ended() == session::ending::now) close(c);
  if (!c.closing && !c.full) send(c);
  if (!c.closing) {
    const session::ending ending = c.talk->ended();
    const bool last = ending == session::ending::when_sent || dismissing_ || c.said_all;
    if (ending == session::ending::now || (last && c.talk->pending().empty())) close(c);
  }
  if (!c.closing) {
    const bool wanted =
        reading_ && !c.said_all && c.talk->ended() == session::ending::no && c.talk->wants_input();
    if (wanted && !c.receiving) wait_for(c, direction::in);
    if (!wanted && !c.paused) counters_.pauses.add();
    c.paused = !wanted;
  }
  if (!c.closing || c.operations != 0 || c.noted) return;
  counters_.closed.add();
  --clients_;
  const std::uint32_t index = c.index;
  slots_[index].reset();
  free_.push_back(index);
}

// Waits under way end thereby, and come back.
void asio_door::close(client& c) noexcept {
  if (c.closing) return;
  c.closing = true;
  std::error_code ignored;
  c.descriptor.close(ignored);
  loop_.expect_work();
  note(c);
}

void asio_door::note(client& c) noexcept {
  if (c.noted) return;
  c.noted = true;
  noted_.push_back(&c);
  if (!later_.linked()) loop_.ready(later_);
}

void asio_door::tend_noted() noexcept {
  looking_.swap(noted_);  // what is noted meanwhile is the next pass's
  for (client* c : looking_) {
    c->noted = false;
    tend(*c);
  }
  looking_.clear();
}

void asio_door::woken(void* context) noexcept {
  client& c = *static_cast<client*>(context);
  c.woken = true;
  c.door.note(c);
}

void asio_door::stop_reading() noexcept {
  reading_ = false;
  for (const std::unique_ptr<client>& c : slots_) {
    if (c) note(*c);
  }
}

void asio_door::dismiss() noexcept {
  dismissing_ = true;
  stop_reading();
}

void asio_door::each_second() noexcept {
  ++second_;
  loop_.add(tick_, loop_.now() + std::chrono::seconds(1));
  for (const std::unique_ptr<listener>& l : listeners_) {
    if (l->failed) accept_on(*l);
  }
  const std::uint32_t most = settings_.idle_seconds.load(std::memory_order_relaxed);
  if (most == 0) return;
  for (const std::unique_ptr<client>& c : slots_) {
    if (!c || c->closing || second_ - c->active <= most) continue;
    counters_.timed_out.add();
    close(*c);
  }
}

}  // namespace kv
