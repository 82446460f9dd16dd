#include <cordma/net/transport/verbs/wire.hpp>

#include <cordma/net/transport/crc32.hpp>
#include <cordma/net/transport/little_endian.hpp>
#include <cordma/net/transport/verbs/codes.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::verbs {
namespace {

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

// The three remote rights, as three bits.
std::uint8_t to_bits(access rights) noexcept {
  return static_cast<std::uint8_t>((static_cast<std::uint8_t>(rights) >> 1) & 7U);
}
access from_bits(unsigned bits) noexcept { return static_cast<access>((bits & 7U) << 1); }
static_assert(static_cast<std::uint8_t>(all_remote) == 14);

constexpr std::uint32_t control_magic = 0x43565243;  // "CRVC"
constexpr std::array<char, 8> descriptor_magic{'C', 'O', 'R', 'D', 'M', 'A', 'V', 'B'};
static_assert(static_cast<unsigned>(service::uc) <= 3 && largest_mtu_code <= 7);
static_assert(rnr_microseconds.size() == 32, "an rnr timer code has five bits");

bool is_ipv4(std::span<const std::byte, 20> header) noexcept {
  if (byte_at(header, 0) != 0x45) return false;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) {
    sum += (std::uint32_t{byte_at(header, i)} << 8) | byte_at(header, i + 1);
  }
  return (sum & 0xFFFFU) + (sum >> 16) == 0xFFFFU;
}

failure broken(const char* what) {
  return failure{errc::connection_aborted, std::string("the peer's descriptor is damaged (") +
                                               what + "): carry it over again, byte by byte"};
}

}  // namespace

private_data encode(const hello& h, std::span<const std::byte> user) noexcept {
  private_data p;
  const std::size_t most = h.kind == hello_kind::request ? most_request_data : most_accept_data;
  CORDMA_REQUIRE_OP(user.size(), <=, most);
  CORDMA_REQUIRE_OP(h.version, <=, 0x0F);
  CORDMA_REQUIRE_OP(h.control_pair, <=, 0xFFFFFFU);
  CORDMA_REQUIRE_OP(h.mtu, <=, largest_mtu_code);
  p.bytes[0] = static_cast<std::byte>(hello_magic | h.version);
  p.bytes[1] =
      static_cast<std::byte>(static_cast<unsigned>(h.kind) | (static_cast<unsigned>(h.type) << 2) |
                             (static_cast<unsigned>(h.mtu) << 4));
  p.bytes[2] = static_cast<std::byte>((h.rnr_timer & 31U) | (unsigned{to_bits(h.rights)} << 5));
  p.bytes[3] = static_cast<std::byte>(user.size());
  store(&p.bytes[4], h.control_pair, 3);
  std::copy(user.begin(), user.end(), p.bytes.begin() + hello_bytes);
  p.length = static_cast<std::uint8_t>(hello_bytes + user.size());
  return p;
}

private_data without_head(std::span<const std::byte> user) noexcept {
  private_data p;
  CORDMA_REQUIRE_OP(user.size(), <=, most_accept_data);
  std::copy(user.begin(), user.end(), p.bytes.begin());
  p.length = static_cast<std::uint8_t>(user.size());
  return p;
}

decoded_hello decode(std::span<const std::byte> bytes) noexcept {
  decoded_hello d;
  if (bytes.size() < hello_bytes || (byte_at(bytes, 0) & 0xF0U) != hello_magic) return d;
  hello& h = d.value;
  h.version = byte_at(bytes, 0) & 0x0FU;
  if (h.version != wire_version) {
    d.what = decoded_hello::outcome::other_version;
    return d;
  }
  const unsigned second = byte_at(bytes, 1);
  const unsigned third = byte_at(bytes, 2);
  const std::size_t length = byte_at(bytes, 3);
  h.kind = static_cast<hello_kind>(second & 3U);
  h.mtu = static_cast<std::uint8_t>((second >> 4) & 7U);
  h.rnr_timer = static_cast<std::uint8_t>(third & 31U);
  h.rights = from_bits(third >> 5);
  h.control_pair = load<std::uint32_t>(&bytes[4], 3);
  const bool known_service = ((second >> 2) & 3U) <= static_cast<unsigned>(service::uc);
  const bool known_mtu = h.mtu >= smallest_mtu_code && h.mtu <= largest_mtu_code;
  if (!known_service || !known_mtu || length > bytes.size() - hello_bytes) return d;
  h.type = static_cast<service>((second >> 2) & 3U);
  d.user = bytes.subspan(hello_bytes, length);
  d.what = decoded_hello::outcome::good;
  return d;
}

decoded_hello decode_request(std::span<const std::byte> bytes, peer_kind whom) noexcept {
  using outcome = decoded_hello::outcome;
  if (whom == peer_kind::plain) return {.what = outcome::good, .value = {}, .user = bytes};
  decoded_hello d = decode(bytes);
  if (d.what == outcome::good && d.value.kind != hello_kind::request) d.what = outcome::not_ours;
  return d;
}

void encode(const control_message& m, std::span<std::byte, control_bytes> out) noexcept {
  store(&out[0], control_magic);
  store(&out[4], wire_version);
  store(&out[5], static_cast<std::uint8_t>(m.what));
  store(&out[6], m.count);
  store(&out[8], m.to_pair);
  store(&out[12], m.from_pair);
  store(&out[16], m.to_token);
  store(&out[24], m.from_token);
}

bool decode(std::span<const std::byte> in, control_message& m) noexcept {
  if (in.size() != control_bytes || load<std::uint32_t>(&in[0]) != control_magic) return false;
  if (byte_at(in, 4) != wire_version) return false;
  const std::uint8_t kind = byte_at(in, 5);
  if (kind < static_cast<std::uint8_t>(word::goodbye)) return false;
  if (kind > static_cast<std::uint8_t>(word::heard)) return false;
  m.what = static_cast<word>(kind);
  m.count = load<std::uint16_t>(&in[6]);
  m.to_pair = load<std::uint32_t>(&in[8]);
  m.from_pair = load<std::uint32_t>(&in[12]);
  m.to_token = load<std::uint64_t>(&in[16]);
  m.from_token = load<std::uint64_t>(&in[24]);
  return true;
}

std::vector<std::byte> encode(const pair_descriptor& d) {
  std::vector<std::byte> out(descriptor_bytes);
  std::memcpy(out.data(), descriptor_magic.data(), descriptor_magic.size());
  store(&out[8], std::uint16_t{wire_version});
  store(&out[10], static_cast<std::uint8_t>(d.type));
  store(&out[11], d.mtu);
  store(&out[12], d.pair);
  store(&out[16], d.first_psn);
  store(&out[20], d.control_pair);
  store(&out[24], d.lid);
  store(&out[26], to_bits(d.rights));
  store(&out[27], d.rnr_timer);
  store(&out[28], d.read_depth);
  std::memcpy(&out[32], d.gid.data(), d.gid.size());
  store(&out[48], d.token);
  store(&out[56], crc32(std::span(out).first(56)));
  return out;
}

result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes) {
  if (bytes.size() != descriptor_bytes) return broken("its length");
  if (std::memcmp(bytes.data(), descriptor_magic.data(), descriptor_magic.size()) != 0) {
    return broken("not a descriptor of the verbs transport");
  }
  if (crc32(bytes.first(56)) != load<std::uint32_t>(&bytes[56])) return broken("its checksum");
  const auto version = load<std::uint16_t>(&bytes[8]);
  if (version != wire_version) {
    return failure{errc::unsupported_version, "the peer's descriptor: version: mine " +
                                                  std::to_string(wire_version) + ", theirs " +
                                                  std::to_string(version)};
  }
  pair_descriptor d;
  if (byte_at(bytes, 10) > static_cast<std::uint8_t>(service::uc)) return broken("its service");
  d.type = static_cast<service>(byte_at(bytes, 10));
  d.mtu = byte_at(bytes, 11);
  if (d.mtu < smallest_mtu_code || d.mtu > largest_mtu_code) return broken("its MTU");
  d.pair = load<std::uint32_t>(&bytes[12]);
  d.first_psn = load<std::uint32_t>(&bytes[16]);
  d.control_pair = load<std::uint32_t>(&bytes[20]);
  d.lid = load<std::uint16_t>(&bytes[24]);
  d.rights = from_bits(byte_at(bytes, 26));
  d.rnr_timer = byte_at(bytes, 27) & 31U;
  d.read_depth = load<std::uint16_t>(&bytes[28]);
  std::memcpy(d.gid.data(), &bytes[32], d.gid.size());
  d.token = load<std::uint64_t>(&bytes[48]);
  return d;
}

datagram_peer encode(const datagram_address& a, std::uint32_t pair, std::uint32_t qkey) noexcept {
  datagram_peer p;
  std::memcpy(p.address.data(), a.gid.data(), a.gid.size());
  store(&p.address[16], a.lid);
  p.address[18] = static_cast<std::byte>(a.group ? 1 : 0);
  p.address_length = datagram_address_bytes;
  p.queue_pair = pair;
  p.qkey = qkey;
  return p;
}

bool decode(const datagram_peer& p, datagram_address& a) noexcept {
  if (p.address_length != datagram_address_bytes) return false;
  std::memcpy(a.gid.data(), p.address.data(), a.gid.size());
  a.lid = load<std::uint16_t>(&p.address[16]);
  a.group = p.address[18] != std::byte{0};
  return true;
}

std::array<std::byte, 16> sender_of(std::span<const std::byte, grh_bytes> header) noexcept {
  std::array<std::byte, 16> gid{};
  constexpr std::size_t v4_at = 20;
  const bool may_be_v6 = (byte_at(header, 0) >> 4) == 6;
  // The bytes before an IPv4 header are arbitrary, so a header with a correct checksum decides.
  if (!may_be_v6 || is_ipv4(header.subspan<v4_at>())) {  // as ::ffff:a.b.c.d
    gid[10] = gid[11] = std::byte{0xFF};
    std::memcpy(&gid[12], &header[v4_at + 12], 4);
  } else {
    std::memcpy(gid.data(), &header[8], gid.size());
  }
  return gid;
}

}  // namespace cordma::transport::verbs
