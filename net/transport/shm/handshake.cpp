#include <unistd.h>

#include <algorithm>
#include <array>
#include <cordma/net/transport/shm/handshake.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {
namespace {

constexpr duration longest_pause = std::chrono::milliseconds(20);
constexpr const char* in_flight =
    "too many descriptors of this user are on their way between processes: raise its limit of open "
    "files (ulimit -n)";

}  // namespace

handshake::handshake(shm_queue_pair& q, std::string path) : pair_(q), path_(std::move(path)) {
  const result<std::uint64_t> random = random_number();
  probe_value_ = (random ? *random : 0) | 1;
}

shm_adapter& handshake::home() const noexcept { return pair_.home_; }

introduction handshake::introduce(packet type, std::span<const std::byte> data) const noexcept {
  const queue_pair_options& options = pair_.options_;
  auto i = make_packet<introduction>(type);
  i.cell_size = cell_bytes;
  i.ring_size = pair_.domain_.options().ring_bytes;
  i.rnr_timer_ns =
      static_cast<std::uint64_t>(std::max<duration::rep>(options.rnr_timer.count(), 0));
  i.probe_address = reinterpret_cast<std::uintptr_t>(&probe_value_);
  i.probe_value = probe_value_;
  i.token = token_;
  i.pid = static_cast<std::uint32_t>(::getpid());
  i.rnr_retry = options.rnr_retry;
  i.fences_itself = pair_.domain_.barriers() ? 0 : 1;
  i.reads_peer = pair_.peer_.is_readable ? 1 : 0;
  i.data_bytes = static_cast<std::uint8_t>(std::min(data.size(), i.data.size()));
  std::copy_n(data.data(), i.data_bytes, i.data.data());
  return i;
}

void handshake::begin() noexcept {
  pair_.state_.become(pair_state::connecting);
  home().expect(1);
}

void handshake::await_peer() noexcept {
  reactor& r = home().home();
  r.add(connect_timer_, after(r.now(), pair_.options_.connect_timeout));
}

void handshake::came_up() noexcept {
  if (pair_.state_ == pair_state::connecting) home().expect(-1);
  home().home().remove(connect_timer_);
}

void handshake::stop() noexcept {
  if (pair_.state_ == pair_state::connecting) home().expect(-1);
  home().home().remove(connect_timer_);
  home().home().remove(call_timer_);
  invitation_.reset();
  accept_.reset();
  hidden_.reset();
}

void handshake::on_connect_timeout() noexcept {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(pair_.options_.connect_timeout);
  const std::string text = std::to_string(ms.count());  // short: the string does not allocate
  const bool called = invitation_ == nullptr || limit_ == nullptr;
  pair_.fail(failure::of(
      errc::timed_out,
      {path_, called ? " did not answer within " : " could not be called for ", text, " ms: ",
       called ? "is its process stopped or busy? connect_timeout gives it longer" : limit_}));
}

// ---- connecting: a listener may be busy, and this user's descriptors in flight are limited ----

result<void> handshake::call(std::unique_ptr<invitation> to) {
  CORDMA_REQUIRE(to != nullptr);
  CORDMA_ASSERT(invitation_ == nullptr && !pair_.socket_);
  invitation_ = std::move(to);
  begin();
  const result<void> called = call_once();
  if (called) {
    await_peer();
  } else {
    home().expect(-1);
    pair_.state_.become(pair_state::error);
    pair_.socket_.close();
    invitation_.reset();
  }
  return called;
}

result<void> handshake::call_once() {
  invitation& i = *invitation_;
  if (!pair_.socket_) {
    result<dial> d = i.port != 0 ? dial_port(pair_.domain_.place(), i.port) : dial_name(path_);
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
  const std::array<int, 4> fds{i.memory.get(), home().doorbell_fd(), home().page_fd(),
                               pair_.domain_.epochs_fd()};
  const transfer said = send_packet(pair_.socket_.get(), hello, fds);
  if (said == transfer::again || said == transfer::limit) return call_again(in_flight);
  // A listener that closed meanwhile may have sent its reason: the response is read in any case.
  invitation_.reset();
  return {};
}

// Checks the user of the listener and creates the connection's memory.
result<void> handshake::meet(socket_fd socket) {
  const result<peer_identity> who = identify(socket.get());
  if (!who) return who.why();
  if (!pair_.domain_.rule().admits(socket.get(), *who)) {
    return failure{errc::not_permitted,
                   path_ + " belongs to user " + std::to_string(who->uid) +
                       ": allow its group or any user, or connect as that one"};
  }
  const std::uint32_t ring_bytes = pair_.domain_.options().ring_bytes;
  result<unique_fd> memory = create_shared("cordma-channel", channel_bytes(ring_bytes));
  if (!memory) return memory.why();
  result<channel> mapped = map_channel(memory->get(), ring_bytes, side::connects);
  if (!mapped) return mapped.why();
  CORDMA_ASSERT(invitation_ != nullptr);
  pair_.peer_.who = *who;
  const result<void> adopted = pair_.adopt_socket(socket);
  if (!adopted) return adopted;
  pair_.memory_ = std::move(*mapped);
  invitation_->memory = std::move(*memory);
  return {};
}

result<void> handshake::call_again(const char* limit) noexcept {
  limit_ = limit;
  pause_ = std::min(pause_ * 2, longest_pause);
  home().home().add(call_timer_, home().home().now() + pause_);
  return {};
}

void handshake::on_call_timer() noexcept {
  if (accept_ != nullptr) return send_accept();
  if (invitation_ == nullptr) return;
  try {
    const result<void> called = call_once();
    if (!called) pair_.fail(called.why());
  } catch (const std::bad_alloc&) {
    pair_.starve();
  }
}

// Sends the accept of the accepting side, with its descriptors. No packet is sent before it.
void handshake::send_accept() noexcept {
  CORDMA_ASSERT(accept_ != nullptr);
  const std::array<int, 3> mine{home().doorbell_fd(), home().page_fd(), pair_.domain_.epochs_fd()};
  const transfer said = send_packet(pair_.socket_.get(), *accept_, mine);
  if (said == transfer::again || said == transfer::limit) {
    if (home().home().now() < accept_until_) {
      static_cast<void>(call_again(in_flight));
      return;
    }
    pair_.fail(failure::of(errc::no_memory, {"the connection of ", pair_.peer_text(),
                                             " could not be answered: ", in_flight}));
    return;
  }
  // A client that disconnected meanwhile shows as the end of its socket.
  accept_.reset();
  pair_.settle();
}

void handshake::answer(channel memory, peer_terms terms, std::span<const std::byte> data) {
  auto accept = std::make_unique<introduction>();
  pair_.memory_ = std::move(memory);
  pair_.establish(std::move(terms), {});
  *accept = introduce(packet::accept, data);
  accept_ = std::move(accept);
  accept_until_ = after(home().home().now(), pair_.options_.connect_timeout);
  send_accept();
}

}  // namespace cordma::transport::shm
