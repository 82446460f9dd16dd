#include "ring_door.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace kv {
namespace {

constexpr std::size_t most_fed = socket_ring::buffer_bytes;  // bytes of `kept`, per call
// Smaller rooms are served through a buffer.
constexpr std::size_t least_room = 4 * socket_ring::buffer_bytes;
constexpr unsigned kind_bits = 8;
// A client may fill all buffers before it is stopped, and once more if the cancel missed its
// receive.
static_assert(most_kept_bytes >= 2 * socket_ring::buffers * socket_ring::buffer_bytes);

}  // namespace

cordma::result<std::unique_ptr<front_door>> make_ring_door(cordma::reactor& loop,
                                                           const door_settings& settings) {
  cordma::result<std::unique_ptr<socket_ring>> ring = socket_ring::make();
  if (!ring) return ring.why();
  return std::unique_ptr<front_door>(
      std::make_unique<ring_door>(loop, settings, std::move(ring.value())));
}

ring_door::ring_door(cordma::reactor& loop, const door_settings& settings,
                     std::unique_ptr<socket_ring> ring)
    : common_door(loop, settings), ring_(std::move(ring)) {
  loop_.add(static_cast<cordma::poller&>(*this)).value();
  loop_.set_sleeper(this);
}

// The ring is closed first, so that the kernel no longer uses memory of the clients.
ring_door::~ring_door() {
  stop_listening();
  loop_.set_sleeper(nullptr);
  loop_.remove(static_cast<cordma::poller&>(*this));
  for (const std::unique_ptr<ring_client>& c : slots_) {
    if (c && c->socket) ::shutdown(c->socket.get(), SHUT_RDWR);
  }
  ring_.reset();
}

std::uint64_t ring_door::mark(operation o, std::uint32_t index) noexcept {
  return std::uint64_t{index} << kind_bits | static_cast<std::uint64_t>(o);
}

// One pass of the reactor.

std::size_t ring_door::poll() noexcept {
  if (ring_->worth_asking()) {
    counters_.kernel_calls.add();
    ring_->ask();
  }
  const std::size_t done = ring_->reap([this](const io_uring_cqe& outcome) { completed(outcome); });
  return done + tend_noted();
}

cordma::arm_state ring_door::arm() noexcept {
  const bool busy = ring_->worth_asking() || ring_->has_completions() || !noted_.empty();
  return busy ? cordma::arm_state::busy : cordma::arm_state::armed;
}

void ring_door::sleep(int fd) noexcept {
  if (!watching_) {
    io_uring_sqe& e = ring_->entry();
    ::io_uring_prep_poll_add(&e, fd, POLLIN);
    e.user_data = mark(operation::wake_up, 0);
    watching_ = true;
  }
  counters_.kernel_calls.add();
  ring_->wait();
}

void ring_door::completed(const io_uring_cqe& outcome) noexcept {
  const auto what = static_cast<operation>(outcome.user_data & ((1U << kind_bits) - 1));
  const auto index = static_cast<std::uint32_t>(outcome.user_data >> kind_bits);
  switch (what) {
    case operation::accept: return accepted(index, outcome);
    case operation::wake_up: watching_ = false; return;
    case operation::nothing: return;
    default: break;
  }
  ring_client& c = *slots_[index];  // kept until its last operation has completed
  switch (what) {
    case operation::receive: received(c, outcome); break;
    case operation::fill: filled(c, outcome.res); break;
    case operation::send: sent(c, outcome.res); break;
    case operation::room:
      c.full = false;
      --c.operations;
      break;
    case operation::end: may_have_ended(c, outcome.res); break;
    default:
      --c.operations;
      // The receive was completing and the cancel missed it: cancel again.
      if (c.in == receiving::canceled) c.in = receiving::yes;
      break;
  }
  note(c);
}

// Accepting.

void ring_door::listen(int socket, arrival here, complaint cannot, void* context) {
  listeners_.push_back({.socket = socket, .here = here, .cannot = cannot, .context = context});
  accept_on(static_cast<std::uint32_t>(listeners_.size() - 1));
}

void ring_door::accept_on(std::uint32_t index) noexcept {
  listener& l = listeners_[index];
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_multishot_accept(&e, l.socket, nullptr, nullptr, SOCK_CLOEXEC);
  e.user_data = mark(operation::accept, index);
  l.accepting = true;
  l.failed = false;
}

void ring_door::stop_listening() noexcept {
  for (std::uint32_t i = 0; i < listeners_.size(); ++i) {
    listener& l = listeners_[i];
    l.failed = false;
    if (!l.accepting || l.here == nullptr) continue;
    l.here = nullptr;
    io_uring_sqe& e = ring_->entry();
    ::io_uring_prep_cancel64(&e, mark(operation::accept, i), 0);
    e.user_data = mark(operation::nothing, 0);
  }
  ring_->ask();
}

void ring_door::accepted(std::uint32_t index, const io_uring_cqe& outcome) noexcept {
  listener& l = listeners_[index];
  l.accepting = (outcome.flags & IORING_CQE_F_MORE) != 0;
  cordma::unique_fd socket(outcome.res);
  if (l.here == nullptr) return;  // accepted too late: closed
  const bool passing =
      outcome.res == -ECONNABORTED || outcome.res == -EINTR || outcome.res == -EAGAIN;
  if (socket) {
    counters_.accepted.add();
    l.here(l.context, std::move(socket));
  } else if (!passing && outcome.res != -ECANCELED) {
    l.failed = true;
    l.cannot(l.context, -outcome.res);
  }
  if (!listeners_[index].accepting && !listeners_[index].failed) accept_on(index);
}

std::unique_ptr<ring_client> ring_door::make_client(std::uint32_t index, cordma::unique_fd socket) {
  return std::make_unique<ring_client>(*this, index, std::move(socket));
}

void ring_door::accept_again() noexcept {
  for (std::uint32_t i = 0; i < listeners_.size(); ++i) {
    if (listeners_[i].failed) accept_on(i);
  }
}

// Receiving.

void ring_door::receive_from(ring_client& c) noexcept {
  io_uring_sqe& e = ring_->entry();
  if (c.much) {
    ::io_uring_prep_recv(&e, c.socket.get(), nullptr, socket_ring::buffer_bytes, 0);
  } else {
    ::io_uring_prep_recv_multishot(&e, c.socket.get(), nullptr, 0, 0);
  }
  e.user_data = mark(operation::receive, c.index);
  e.flags |= IOSQE_BUFFER_SELECT;
  e.buf_group = socket_ring::buffer_group;
  c.in = c.much ? receiving::once : receiving::yes;
  ++c.operations;
}

void ring_door::received(ring_client& c, const io_uring_cqe& outcome) noexcept {
  if ((outcome.flags & IORING_CQE_F_MORE) == 0) {
    c.in = receiving::no;
    --c.operations;
  }
  if (outcome.res > 0) {
    c.much = outcome.res == static_cast<int>(socket_ring::buffer_bytes);
    feed(c, ring_->buffer(outcome));
    ring_->give_back(outcome);
  } else if ((outcome.flags & IORING_CQE_F_BUFFER) != 0) {
    ring_->give_back(outcome);
  }
  if (outcome.res == 0) c.said_all = true;
  const bool passing = outcome.res == -ENOBUFS || outcome.res == -ECANCELED ||
                       outcome.res == -EINTR || outcome.res == -EAGAIN;
  if (outcome.res < 0 && !passing) close(c);
}

// The room stays valid: the conversation gets no other input until it is filled, and closing ends
// the receive.
void ring_door::fill(ring_client& c, std::span<char> room) noexcept {
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_recv(&e, c.socket.get(), room.data(), room.size(), 0);
  e.user_data = mark(operation::fill, c.index);
  c.in = receiving::into_room;
  ++c.operations;
}

void ring_door::filled(ring_client& c, int outcome) noexcept try {
  c.in = receiving::no;
  --c.operations;
  if (outcome > 0 && !c.closing) {
    came(c, static_cast<std::size_t>(outcome));
    c.talk->arrived(static_cast<std::size_t>(outcome));
  }
  if (outcome == 0) c.said_all = true;
  if (outcome < 0 && outcome != -EINTR && outcome != -EAGAIN) close(c);
} catch (const std::exception&) {
  close(c);
}

void ring_door::feed(ring_client& c, std::span<const char> bytes) noexcept try {
  came(c, bytes.size());
  if (c.closing) return;
  if (c.kept.empty() && c.talk->wants_input()) return c.talk->received(bytes);
  // Bytes that arrived before the kernel processed the cancel.
  if (c.kept.size() + bytes.size() > most_kept_bytes) return close(c);
  c.kept.append(bytes.data(), bytes.size());
} catch (const std::exception&) {
  close(c);
}

bool ring_door::feed_kept(ring_client& c) {
  std::size_t given = 0;
  while (given < c.kept.size() && c.talk->wants_input()) {
    const std::size_t n = std::min(most_fed, c.kept.size() - given);
    c.talk->received(std::span(c.kept).subspan(given, n));
    given += n;
  }
  if (given == c.kept.size()) {
    if (given != 0) std::string().swap(c.kept);
    return true;
  }
  c.kept.erase(0, given);
  return false;
}

// Sending.

void ring_door::send(ring_client& c) noexcept {
  const std::span<const char> bytes = c.talk->pending();
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_send(&e, c.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  e.user_data = mark(operation::send, c.index);
  c.sending = true;
  ++c.operations;
}

void ring_door::sent(ring_client& c, int outcome) noexcept {
  c.sending = false;
  --c.operations;
  if (outcome > 0) {
    went(c, static_cast<std::size_t>(outcome));
  } else if (outcome == -EAGAIN) {
    watch_for_room(c);
  } else if (outcome != -EINTR) {
    close(c);
  }
}

void ring_door::watch_for_room(ring_client& c) noexcept {
  if (c.closing) return;
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_poll_add(&e, c.socket.get(), POLLOUT);
  e.user_data = mark(operation::room, c.index);
  c.full = true;
  ++c.operations;
}

// Even an empty event mask reports errors and the end of one or both directions. After one
// direction has ended the poll would complete at once each time, so it is not repeated. The poll
// remains while the client is received from again; receiving then reports more.
void ring_door::watch_for_end(ring_client& c) noexcept {
  if (c.watched || c.half_way || c.said_all || !reading_) return;
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_poll_add(&e, c.socket.get(), 0);
  e.user_data = mark(operation::end, c.index);
  c.watched = true;
  ++c.operations;
}

void ring_door::may_have_ended(ring_client& c, int outcome) noexcept {
  c.watched = false;
  --c.operations;
  const bool both = outcome >= 0 && (outcome & (POLLERR | POLLHUP)) != 0;
  if (!both) {
    c.half_way = true;
  } else if (c.in == receiving::no) {
    close(c);  // no peer is left to notify
  }
}

void ring_door::mind_input(ring_client& c, bool wanted) noexcept {
  wanted = wanted && c.kept.empty();
  const bool goes_on = c.in == receiving::yes || c.in == receiving::once;
  if (goes_on && (!wanted || (c.much && c.in == receiving::yes))) {
    c.in = receiving::canceled;
    cancel(c, operation::receive);
  }
  if (c.in != receiving::no) return;
  if (!wanted) return watch_for_end(c);
  const std::span<char> room = c.much ? c.talk->room() : std::span<char>();
  if (room.size() >= least_room) {
    fill(c, room);
  } else {
    receive_from(c);
  }
}

void ring_door::cancel(ring_client& c, operation o) noexcept {
  io_uring_sqe& e = ring_->entry();
  ::io_uring_prep_cancel64(&e, mark(o, c.index), 0);
  e.user_data = mark(operation::cancel, c.index);
  ++c.operations;
}

// Shuts the socket down, which completes its operations in the kernel.
void ring_door::shut(ring_client& c) noexcept {
  if (c.operations != 0) ::shutdown(c.socket.get(), SHUT_RDWR);
}

}  // namespace kv
