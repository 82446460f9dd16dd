// Connecting by descriptors that the program transfers.
#include <cordma/net/transport/tcp/connection_handshake.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>

namespace cordma::transport::tcp {

result<std::vector<std::byte>> connection::descriptor() {
  if (life_ != phase::idle) {
    return failure{errc::bad_state, "a queue pair is connected once: create a new one"};
  }
  const result<std::uint16_t> port = home_.attach_port();
  if (!port) return port.why();
  pair_descriptor d;
  d.port = *port;
  d.own = tokens_.own;
  d.places = local_places();
  if (d.places.empty()) {
    return failure{errc::unreachable, "this machine has no network address, not even loopback"};
  }
  return encode(d);
}

// The side with the smaller token connects; the other one waits.
result<void> connection::connect(std::span<const std::byte> peer_descriptor) {
  if (life_ != phase::idle) {
    return failure{errc::bad_state, "a queue pair is connected once: create a new one"};
  }
  const result<pair_descriptor> d = decode_descriptor(peer_descriptor);
  if (!d) return d.why();
  if (d->own == tokens_.own) {
    return failure{errc::connection_aborted,
                   "this is the queue pair's own descriptor: it needs "
                   "the one of its peer"};
  }
  tokens_.peer = d->own;
  std::vector<socket_address> candidates = to_addresses(*d);
  std::string text = candidates.front().text();
  if (tokens_.own < tokens_.peer) {
    return start(std::move(candidates), std::move(text), greeting(hello_kind::attach));
  }
  peer_ = std::move(text);
  life_.become(phase::expecting);
  watch_.start(home_.home(), options_.connect_timeout);
  home_.find_caller(*this);
  return {};
}

}  // namespace cordma::transport::tcp
