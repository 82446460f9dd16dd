// Calling a listener, and answering a caller: the connection's half of connection management.
#include <algorithm>
#include <array>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {
namespace {

constexpr duration longest_pause = std::chrono::milliseconds(20);
constexpr const char* in_flight =
    "too many descriptors of this user are on their way between processes: raise its limit of open "
    "files (ulimit -n)";

}  // namespace

// ---- calling: a listener may be busy, and this user's descriptors in flight are limited ----

result<void> shm_queue_pair::call(std::unique_ptr<invitation> to) {
  CORDMA_REQUIRE(to != nullptr);
  CORDMA_ASSERT(invitation_ == nullptr && !socket_);
  invitation_ = std::move(to);
  state_.become(state::connecting);
  home_.expect(1);
  const result<void> called = call_once();
  if (!called) {
    home_.expect(-1);
    state_.become(state::error);
    socket_.close();
    invitation_.reset();
    return called;
  }
  home_.home().add(connect_timer_, after(home_.home().now(), options_.connect_timeout));
  return {};
}

result<void> shm_queue_pair::call_once() {
  invitation& i = *invitation_;
  if (!socket_) {
    result<dial> d = i.port != 0 ? dial_port(domain_.place(), i.port) : dial_name(path_);
    if (!d) return d.why();
    if (d->again) return call_again("the backlog of its listener is full (net.core.somaxconn)");
    path_ = std::move(d->path);
    const result<void> met = meet(std::move(d->socket));
    if (!met) return met;
  }
  auto hello = introduce(packet::hello, i.data);
  if (i.port != 0) {
    const network_namespace own = own_namespace();
    hello.namespace_device = own.device;
    hello.namespace_inode = own.inode;
    hello.wanted_count = std::min(i.wanted.size(), hello.wanted.size());
    std::copy_n(i.wanted.begin(), hello.wanted_count, hello.wanted.begin());
  }
  const std::array<int, 4> fds{i.memory.get(), home_.doorbell_fd(), home_.page_fd(),
                               domain_.epochs_fd()};
  const transfer said = send_packet(socket_.get(), hello, fds);
  if (said == transfer::again || said == transfer::limit) return call_again(in_flight);
  // A listener that went meanwhile may have said why: the answer is looked for in any case.
  invitation_.reset();
  return {};
}

// The connection's memory, and whose socket it is.
result<void> shm_queue_pair::meet(socket_fd socket) {
  const result<peer_identity> who = identify(socket.get());
  if (!who) return who.why();
  if (!domain_.rule().admits(socket.get(), *who)) {
    return failure{errc::not_permitted,
                   path_ + " belongs to user " + std::to_string(who->uid) +
                       ": allow its group or any user, or connect as that one"};
  }
  const std::uint32_t ring_bytes = domain_.options().ring_bytes;
  result<unique_fd> memory = create_shared("cordma-channel", channel_bytes(ring_bytes));
  if (!memory) return memory.why();
  result<channel> mapped = map_channel(memory->get(), ring_bytes);
  if (!mapped) return mapped.why();
  CORDMA_ASSERT(invitation_ != nullptr);
  peer_.who = *who;
  socket_.own(std::move(socket));
  const result<void> watched = socket_.watch(watched_for);
  if (!watched) return watched;
  memory_ = std::move(*mapped);
  invitation_->memory = std::move(*memory);
  return {};
}

result<void> shm_queue_pair::call_again(const char* limit) noexcept {
  limit_ = limit;
  pause_ = std::min(pause_ * 2, longest_pause);
  home_.home().add(call_timer_, home_.home().now() + pause_);
  return {};
}

void shm_queue_pair::on_call_timer() noexcept {
  if (state_ == state::up) return send_accept();
  if (invitation_ == nullptr || state_ != state::connecting) return;
  try {
    const result<void> called = call_once();
    if (!called) fail_connecting(called.why());
  } catch (const std::bad_alloc&) {
    starve();
  }
}

// The answer of the accepting side, with its descriptors. Nothing is sent ahead of it.
void shm_queue_pair::send_accept() noexcept {
  if (accept_ == nullptr) return;
  const std::array<int, 3> mine{home_.doorbell_fd(), home_.page_fd(), domain_.epochs_fd()};
  const transfer said = send_packet(socket_.get(), *accept_, mine);
  if (said == transfer::again || said == transfer::limit) {
    if (home_.home().now() < accept_until_) {
      static_cast<void>(call_again(in_flight));
      return;
    }
    fail(failure::of(errc::no_memory,
                     {"the connection of ", peer_text(), " could not be answered: ", in_flight}));
    return;
  }
  // A client that went meanwhile shows as the end of its socket.
  accept_.reset();
  settle();
}

// Throws std::bad_alloc, and nothing has changed then.
void shm_queue_pair::answer(channel memory, peer_terms terms, std::span<const std::byte> data) {
  auto accept = std::make_unique<introduction>();
  establish(std::move(memory), std::move(terms), {});
  *accept = introduce(packet::accept, data);
  accept_ = std::move(accept);
  accept_until_ = after(home_.home().now(), options_.connect_timeout);
  send_accept();
}

}  // namespace cordma::transport::shm
