#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/crc32.hpp>
#include <cordma/net/transport/random.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>

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
  store(&out[8], wire_version);
  store(&out[10], d.port);
  out[12] = static_cast<std::byte>(d.places.size());
  std::memcpy(&out[16], d.own.data(), sizeof(token));
  std::size_t at = descriptor_fixed;
  for (const place& p : d.places) {
    out[at] = static_cast<std::byte>(p.family);
    std::memcpy(&out[at + 1], p.address.data(), p.address.size());
    at += place_bytes;
  }
  CORDMA_ASSERT_OP(at + checksum_bytes, ==, out.size());
  store(&out[at], crc32({out.data(), at}));
  return out;
}

result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes) {
  if (bytes.size() < descriptor_fixed + checksum_bytes) return broken("too short");
  const std::byte* const p = bytes.data();
  if (std::memcmp(p, descriptor_magic.data(), descriptor_magic.size()) != 0) {
    return broken("not a descriptor of the tcp transport");
  }
  const std::size_t body = bytes.size() - checksum_bytes;
  if (crc32(bytes.first(body)) != load<std::uint32_t>(p + body)) return broken("its checksum");
  const auto version = load<std::uint16_t>(p + 8);
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
  d.port = load<std::uint16_t>(p + 10);
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
      if (IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr)) continue;  // unusable without an interface
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
    if (p.family == 4) {
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_port = htons(d.port);
      std::memcpy(&a.sin_addr, p.address.data(), sizeof a.sin_addr);
      list.emplace_back(&a, static_cast<socklen_t>(sizeof a));
    } else {
      sockaddr_in6 a{};
      a.sin6_family = AF_INET6;
      a.sin6_port = htons(d.port);
      std::memcpy(&a.sin6_addr, p.address.data(), sizeof a.sin6_addr);
      list.emplace_back(&a, static_cast<socklen_t>(sizeof a));
    }
  }
  return list;
}

result<token> random_token() {
  token t;
  const int failed = draw_random(std::as_writable_bytes(std::span(t)));
  if (failed != 0) return failure::from_os(failed, "drawing a random token");
  return t;
}

}  // namespace cordma::transport::tcp
