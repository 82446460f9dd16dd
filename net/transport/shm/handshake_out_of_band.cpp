// Connecting by descriptors that the user carries: each side has a hidden name; the side with the
// smaller token dials the other.
#include <sys/epoll.h>
#include <unistd.h>

#include <cordma/net/transport/shm/handshake.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>
#include <cstdio>

namespace cordma::transport::shm {
namespace {

// Little-endian; both sides are on one host anyway. The checksum covers everything before it.
struct descriptor_blob {
  std::uint32_t magic;         //   0
  std::uint16_t version;       //   4: the layout from here on depends on the version
  std::uint16_t path_bytes;    //   6
  std::uint64_t token;         //   8
  std::array<char, 104> path;  //  16
  std::uint64_t checksum;      // 120
};
static_assert(sizeof(descriptor_blob) == 128 && offsetof(descriptor_blob, checksum) == 120);
static_assert(offsetof(descriptor_blob, version) == 4 &&
              offsetof(descriptor_blob, path_bytes) == 6);
static_assert(offsetof(descriptor_blob, token) == 8 && offsetof(descriptor_blob, path) == 16);
static_assert(std::has_unique_object_representations_v<descriptor_blob>);
constexpr std::uint32_t descriptor_magic = 0x64726473;  // "sdrd"

// FNV-1a.
std::uint64_t checksum(const descriptor_blob& b) noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const std::byte x :
       std::as_bytes(std::span(&b, 1)).first(offsetof(descriptor_blob, checksum))) {
    h = (h ^ static_cast<std::uint64_t>(x)) * 0x100000001b3U;
  }
  return h;
}

result<descriptor_blob> read_descriptor(std::span<const std::byte> bytes) {
  descriptor_blob b{};
  if (bytes.size() < 6) {
    return failure{errc::connection_aborted, "the peer's descriptor is too short: it was cut off"};
  }
  std::memcpy(&b, bytes.data(), std::min(bytes.size(), sizeof b));
  if (b.magic != descriptor_magic) {
    return failure{errc::connection_aborted, "these bytes are no descriptor of an shm queue pair"};
  }
  if (b.version == wire_version && bytes.size() == sizeof b && b.checksum == checksum(b) &&
      b.path_bytes < b.path.size()) {
    return b;
  }
  if (b.version != wire_version && bytes.size() == sizeof b && b.checksum == checksum(b)) {
    return failure{errc::unsupported_version,
                   "the version of the peer's descriptor differs: mine is " +
                       std::to_string(wire_version) + ", theirs is " + std::to_string(b.version)};
  }
  return failure{errc::connection_aborted,
                 "the peer's descriptor is damaged: its checksum or its length is wrong"};
}

}  // namespace

hidden_name::hidden_name(bound_name bound, std::uint64_t t, socket_set& set, socket_handler& owner)
    : files(std::move(bound.files)), socket(set, owner), token(t) {
  socket.own(std::move(bound.socket));
}

result<void> handshake::open_hidden() {
  const result<std::uint64_t> token = random_number();
  if (!token) return token.why();
  char name[32];
  std::snprintf(name, sizeof name, "/q%016llx", static_cast<unsigned long long>(*token));
  result<bound_name> bound =
      bind_name(pair_.domain_.place().folders.front() + name, pair_.domain_.rule());
  if (!bound) return bound.why();
  hidden_ = std::make_unique<hidden_name>(std::move(*bound), *token, home().sockets(), pair_);
  path_ = hidden_->files.path();
  CORDMA_ASSERT_OP(pair_.state_, ==, pair_state::unconnected);
  return {};
}

result<std::vector<std::byte>> handshake::descriptor() const {
  if (pair_.state_ != pair_state::unconnected) {
    return failure{errc::bad_state,
                   "a descriptor is for queue pairs from create(), before they "
                   "are connected"};
  }
  descriptor_blob b{};
  b.magic = descriptor_magic;
  b.version = wire_version;
  b.token = hidden_->token;
  if (path_.size() >= b.path.size()) {
    return failure{errc::invalid_value, "the directory of rendezvous sockets has too long a path"};
  }
  b.path_bytes = static_cast<std::uint16_t>(path_.size());
  path_.copy(b.path.data(), b.path.size() - 1);
  b.checksum = checksum(b);
  const auto bytes = std::as_bytes(std::span(&b, 1));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

result<void> handshake::connect(std::span<const std::byte> peer_descriptor) {
  if (pair_.state_ != pair_state::unconnected) {
    return failure{errc::bad_state, "this queue pair was connected before"};
  }
  const result<descriptor_blob> read = read_descriptor(peer_descriptor);
  if (!read) return read.why();
  const descriptor_blob b = *read;
  CORDMA_ASSERT(hidden_ != nullptr);
  const std::uint64_t own = hidden_->token;
  if (b.token == own) {
    return failure{errc::invalid_value,
                   "this is the queue pair's own descriptor: give it to the "
                   "peer, and the peer's to this side"};
  }
  const std::uint64_t low = std::min(own, b.token);
  const std::uint64_t high = std::max(own, b.token);
  token_ = (low ^ (high << 29 | high >> 35)) | 1;
  path_.assign(b.path.data(), b.path_bytes);
  if (own > b.token) return wait_for_peer();
  const result<void> calling = call(std::make_unique<invitation>());
  if (calling) {
    hidden_.reset();
  } else {
    path_ = hidden_->files.path();
    pair_.state_.become(pair_state::unconnected);
  }
  return calling;
}

result<void> handshake::wait_for_peer() {
  const result<void> watched = hidden_->socket.watch(EPOLLIN);
  if (!watched) return watched;
  begin();
  await_peer();
  return {};
}

void handshake::on_hidden_name() {
  if (!pair_.socket_) {
    socket_fd caller = accept_one(hidden_->socket.get());
    if (!caller) return;
    const result<peer_identity> who = identify(caller.get());
    if (!who || !pair_.domain_.rule().admits(caller.get(), *who)) return;
    if (!pair_.adopt_socket(caller)) return;
    pair_.peer_.who = *who;
  }
  on_hidden_hello();
}

void handshake::on_hidden_hello() {
  received_packet p;
  const transfer t = receive_packet(pair_.socket_.get(), p);
  if (t == transfer::again) return;
  introduction hello{};
  refusal answer{};
  bool fine = t == transfer::done;
  if (fine && !check_hello(p, hello, answer)) {
    static_cast<void>(send_packet(pair_.socket_.get(), answer));
    fine = false;
  }
  if (!fine || hello.token != token_) {  // not the expected peer, which may still connect
    socket_fd stranger = pair_.socket_.release();
    return hang_up(stranger);
  }
  result<peer_terms> terms = read_terms(hello, std::span(p.fds).subspan(1, 3), pair_.peer_.who);
  result<channel> memory = map_channel(p.fds[0].get(), hello.ring_size, side::accepts);
  if (!terms || !memory) {
    const failure why = terms ? memory.why() : terms.why();
    static_cast<void>(
        send_packet(pair_.socket_.get(), make_refusal(packet::refuse, why.code(), why.message())));
    pair_.fail(why);
    return;
  }
  hidden_.reset();
  this->answer(std::move(*memory), std::move(*terms), {});
}

}  // namespace cordma::transport::shm
