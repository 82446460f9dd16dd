#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/crc32.hpp>
#include <cordma/net/transport/random.hpp>
#include <cordma/net/transport/tcp/connection_handshake.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>
#include <new>

namespace cordma::transport::tcp {
namespace {

failure broken(const char* what) {
  return failure{errc::connection_aborted, std::string("the peer's descriptor is damaged (") +
                                               what + "): carry it over again, byte by byte"};
}

}  // namespace

std::vector<std::byte> encode(const pair_descriptor& d) {
  CORDMA_ASSERT_OP(d.places.size(), <=, UINT8_MAX);
  std::vector<std::byte> out(descriptor_fixed + d.places.size() * place_bytes + checksum_bytes);
  std::memcpy(out.data(), descriptor_magic.data(), descriptor_magic.size());
  store_le(&out[8], wire_version);
  store_le(&out[10], d.port);
  out[12] = static_cast<std::byte>(d.places.size());
  std::memcpy(&out[16], d.own.data(), sizeof(token));
  std::size_t at = descriptor_fixed;
  for (const place& p : d.places) {
    out[at] = static_cast<std::byte>(p.family);
    std::memcpy(&out[at + 1], p.address.data(), p.address.size());
    at += place_bytes;
  }
  CORDMA_ASSERT_OP(at + checksum_bytes, ==, out.size());
  store_le(&out[at], crc32({out.data(), at}));
  return out;
}

result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes) {
  if (bytes.size() < descriptor_fixed + checksum_bytes) return broken("too short");
  const std::byte* const p = bytes.data();
  if (std::memcmp(p, descriptor_magic.data(), descriptor_magic.size()) != 0) {
    return broken("not a descriptor of the tcp transport");
  }
  const std::size_t body = bytes.size() - checksum_bytes;
  if (crc32(bytes.first(body)) != load_le<std::uint32_t>(p + body)) return broken("its checksum");
  const auto version = load_le<std::uint16_t>(p + 8);
  if (version != wire_version) {
    return failure{errc::unsupported_version, "the peer's descriptor: version: mine " +
                                                  std::to_string(wire_version) + ", theirs " +
                                                  std::to_string(version)};
  }
  const auto count = std::to_integer<std::size_t>(p[12]);
  if (count == 0 || count > most_places || body != descriptor_fixed + count * place_bytes) {
    return broken("its number of addresses");
  }
  pair_descriptor d;
  d.port = load_le<std::uint16_t>(p + 10);
  std::memcpy(d.own.data(), p + 16, sizeof(token));
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const at = p + descriptor_fixed + i * place_bytes;
    place where;
    where.family = std::to_integer<std::uint8_t>(at[0]);
    if (where.family != 4 && where.family != 6) return broken("an address family");
    std::memcpy(where.address.data(), at + 1, where.address.size());
    d.places.push_back(where);
  }
  return d;
}

std::vector<place> local_places() {
  std::vector<place> far;
  std::vector<place> near;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return near;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    place p;
    if (i->ifa_addr->sa_family == AF_INET) {
      sockaddr_in a;
      std::memcpy(&a, i->ifa_addr, sizeof a);
      std::memcpy(p.address.data(), &a.sin_addr, sizeof a.sin_addr);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 a;
      std::memcpy(&a, i->ifa_addr, sizeof a);
      if (IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr)) continue;  // means nothing without an interface
      p.family = 6;
      std::memcpy(p.address.data(), &a.sin6_addr, sizeof a.sin6_addr);
    } else {
      continue;
    }
    ((i->ifa_flags & IFF_LOOPBACK) != 0 ? near : far).push_back(p);
  }
  freeifaddrs(all);
  far.insert(far.end(), near.begin(), near.end());
  if (far.size() > most_places) far.resize(most_places);
  return far;
}

std::vector<socket_address> to_addresses(const pair_descriptor& d) {
  std::vector<socket_address> list;
  for (const place& p : d.places) {
    socket_address s;
    if (p.family == 4) {
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_port = htons(d.port);
      std::memcpy(&a.sin_addr, p.address.data(), sizeof a.sin_addr);
      std::memcpy(&s.storage, &a, s.length = sizeof a);
    } else {
      sockaddr_in6 a{};
      a.sin6_family = AF_INET6;
      a.sin6_port = htons(d.port);
      std::memcpy(&a.sin6_addr, p.address.data(), sizeof a.sin6_addr);
      std::memcpy(&s.storage, &a, s.length = sizeof a);
    }
    list.push_back(s);
  }
  return list;
}

result<token> random_token() {
  token t;
  const int failed = draw_random(std::as_writable_bytes(std::span(t)));
  if (failed != 0) return failure::from_os(failed, "drawing a random token");
  return t;
}

result<std::vector<std::byte>> connection::descriptor() {
  if (phase_ != phase::idle) {
    return failure{errc::bad_state, "a queue pair is connected once: create a new one"};
  }
  const result<std::uint16_t> port = home_.attach_port();
  if (!port) return port.why();
  pair_descriptor d;
  d.port = *port;
  d.own = own_token_;
  d.places = local_places();
  if (d.places.empty()) {
    return failure{errc::unreachable, "this machine has no network address, not even loopback"};
  }
  return encode(d);
}

// The side with the smaller token calls, the other one waits for the call.
result<void> connection::connect(std::span<const std::byte> peer_descriptor) {
  if (phase_ != phase::idle) {
    return failure{errc::bad_state, "a queue pair is connected once: create a new one"};
  }
  const result<pair_descriptor> d = decode_descriptor(peer_descriptor);
  if (!d) return d.why();
  if (d->own == own_token_) {
    return failure{errc::connection_aborted,
                   "this is the queue pair's own descriptor: it needs "
                   "the one of its peer"};
  }
  peer_token_ = d->own;
  std::vector<socket_address> candidates = to_addresses(*d);
  std::string text = candidates.front().text();
  if (own_token_ < peer_token_) {
    return start(std::move(candidates), std::move(text), greeting(hello_kind::attach));
  }
  peer_ = std::move(text);
  phase_.become(phase::expecting);
  home_.home().add(watch_timer_, after(home_.home().now(), options_.connect_timeout));
  home_.find_caller(*this);
  return {};
}

result<std::uint16_t> tcp_adapter::attach_port() {
  if (attach_listener_ == nullptr) {
    result<std::unique_ptr<tcp_listener>> made = tcp_listener::open(*this, {});
    if (!made) return made.why();
    attach_listener_ = std::move(*made);
  }
  return attach_listener_->bound().port;
}

void tcp_adapter::attach(incoming& caller) noexcept {
  const hello& h = caller.greeting();
  const auto wanted = [&h](const connection* c) { return c->own_token() == h.peer; };
  const auto at = std::find_if(by_token_.begin(), by_token_.end(), wanted);
  const bool known = at != by_token_.end() && h.kind == hello_kind::attach;
  if (known && (*at)->idle()) return;  // its connect() has yet to be called: find_caller()
  if (!known || !(*at)->expects(h.own)) {
    hello no;
    no.kind = hello_kind::reject;
    caller.answer(no);
    return gone(caller);
  }
  connection& c = **at;
  CORDMA_ASSERT(caller.greeted());
  const hello theirs = h;
  caller.detach();
  socket_fd fd = caller.release();
  gone(caller);
  try {
    // If the caller has hung up meanwhile it will call again, or connect_timeout ends it.
    static_cast<void>(c.adopt(std::move(fd), theirs, c.greeting(hello_kind::accept)));
  } catch (const std::bad_alloc&) {
    c.starve();
  }
}

void tcp_adapter::find_caller(connection& c) noexcept {
  for (auto& [id, caller] : incoming_) {
    const hello& h = caller->greeting();
    if (caller->greeted() && h.kind == hello_kind::attach && h.peer == c.own_token()) {
      return attach(*caller);
    }
  }
}

result<std::unique_ptr<queue_pair>> tcp_adapter::create(const queue_pair_options& options) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  const result<token> drawn = random_token();
  if (!drawn) return drawn.why();
  auto made = std::make_unique<connection>(*this, *granted);
  made->name_by(*drawn);
  by_token_.push_back(made.get());
  return std::unique_ptr<queue_pair>(std::move(made));
}

}  // namespace cordma::transport::tcp
