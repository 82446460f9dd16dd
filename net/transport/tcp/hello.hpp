// The handshake of the tcp transport, without I/O: one hello each way, before any frame. The first
// 16 bytes have the same position and meaning in every version, so that versions can recognize each
// other.
#pragma once

#include <algorithm>
#include <array>
#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/runtime/check.hpp>
#include <string>
#include <string_view>

namespace cordma::transport::tcp {

inline constexpr std::array<char, 8> hello_magic{'c', 'o', 'r', 'd', 'm', 'a', '-', 't'};
inline constexpr std::size_t most_request_data = 56;  // bytes of private data with a request
inline constexpr std::size_t most_accept_data = 196;  // ... with an accept or a reject

enum class hello_kind : std::uint8_t {
  request = 1,
  accept = 2,
  reject = 3,
  mismatch = 4,   // refused: `field` differs, and `field_value` is the value of this side
  attach = 5,     // a connection by an out-of-band descriptor: `token` and `peer_token`
  exhausted = 6,  // refused: no file descriptor is left for it
};
[[nodiscard]] constexpr bool opens(hello_kind k) noexcept {
  return k == hello_kind::request || k == hello_kind::attach;
}

// Fields that must be equal on both sides.
enum class hello_field : std::uint8_t { none = 0, version = 1, service = 2, header_bytes = 3 };
[[nodiscard]] constexpr std::string_view name(hello_field f) noexcept {
  switch (f) {
    case hello_field::none: return "none";
    case hello_field::version: return "version";
    case hello_field::service: return "service";
    case hello_field::header_bytes: return "frame header bytes";
  }
  return "?";
}

using token = std::array<std::byte, 16>;

struct hello {
  std::uint16_t version = wire_version;
  hello_kind kind = hello_kind::request;
  service type = service::rc;
  std::uint16_t header_bytes = plain_header;
  hello_field field = hello_field::none;
  std::uint32_t field_value = 0;
  std::uint32_t read_depth =
      0;  // reads and atomics that its sender will have in flight, or answers
  // the depth of its receive queue; 0: shared receives, it accepts puts
  std::uint32_t recv_depth = 0;
  std::uint16_t credit = 0;  // receives posted by its sender so far
  token own{};               // attach only
  token peer{};              // attach only
  std::uint16_t data_length = 0;
  std::array<std::byte, most_accept_data> data{};
};

//  0 magic, 8 version u16, 10 kind u8, 11 service u8, 12 fixed bytes u16, 14 data length u16
// 16 header bytes u16, 18 field u8, 19 zero u8, 20 field value u32
// 24 read depth u32, 28 recv depth u32, 32 credit u16, 34 zero u16, 36 own token, 52 peer token
// 68 private data
namespace hello_at {
inline constexpr std::size_t magic = 0, version = 8, kind = 10, type = 11, fixed = 12, data = 14;
inline constexpr std::size_t header_bytes = 16, field = 18, zero8 = 19, field_value = 20;
inline constexpr std::size_t read_depth = 24, recv_depth = 28, credit = 32, zero16 = 34;
inline constexpr std::size_t own = 36, peer = 52;
}  // namespace hello_at
inline constexpr std::size_t hello_prefix =
    16;  // enough for the version and the length of the rest
inline constexpr std::size_t hello_fixed = 68;
inline constexpr std::size_t most_hello = hello_fixed + most_accept_data;
static_assert(hello_at::magic == 0 && hello_at::version == hello_magic.size());
static_assert(hello_at::kind == hello_at::version + sizeof(std::uint16_t));
static_assert(hello_at::type == hello_at::kind + 1 && hello_at::fixed == hello_at::type + 1);
static_assert(hello_at::data == hello_at::fixed + sizeof(std::uint16_t));
static_assert(hello_at::data + sizeof(std::uint16_t) == hello_prefix);
static_assert(hello_at::header_bytes == hello_prefix);
static_assert(hello_at::field == hello_at::header_bytes + sizeof(std::uint16_t));
static_assert(hello_at::zero8 == hello_at::field + 1);
static_assert(hello_at::field_value == hello_at::zero8 + 1);
static_assert(hello_at::read_depth == hello_at::field_value + sizeof(std::uint32_t));
static_assert(hello_at::recv_depth == hello_at::read_depth + sizeof(std::uint32_t));
static_assert(hello_at::credit == hello_at::recv_depth + sizeof(std::uint32_t));
static_assert(hello_at::zero16 == hello_at::credit + sizeof(std::uint16_t));
static_assert(hello_at::own == hello_at::zero16 + sizeof(std::uint16_t));
static_assert(hello_at::peer == hello_at::own + sizeof(token));
static_assert(hello_at::peer + sizeof(token) == hello_fixed);

static_assert(most_request_data <= most_accept_data && most_hello <= UINT16_MAX);
static_assert(most_depth <= UINT16_MAX, "a hello's credit counts receives");

using hello_buffer = std::array<std::byte, most_hello>;

// Returns the number of bytes written.
inline std::size_t encode(const hello& h, hello_buffer& to) noexcept {
  CORDMA_REQUIRE_OP(h.data_length, <=, h.data.size());
  std::memcpy(&to[hello_at::magic], hello_magic.data(), hello_magic.size());
  store(&to[hello_at::version], h.version);
  to[hello_at::kind] = static_cast<std::byte>(h.kind);
  to[hello_at::type] = static_cast<std::byte>(h.type);
  store(&to[hello_at::fixed], static_cast<std::uint16_t>(hello_fixed));
  store(&to[hello_at::data], h.data_length);
  store(&to[hello_at::header_bytes], h.header_bytes);
  to[hello_at::field] = static_cast<std::byte>(h.field);
  to[hello_at::zero8] = std::byte{0};
  store(&to[hello_at::field_value], h.field_value);
  store(&to[hello_at::read_depth], h.read_depth);
  store(&to[hello_at::recv_depth], h.recv_depth);
  store(&to[hello_at::credit], h.credit);
  store(&to[hello_at::zero16], std::uint16_t{0});
  std::memcpy(&to[hello_at::own], h.own.data(), sizeof(token));
  std::memcpy(&to[hello_at::peer], h.peer.data(), sizeof(token));
  std::memcpy(&to[hello_fixed], h.data.data(), h.data_length);
  return hello_fixed + h.data_length;
}

struct decoded_hello {
  enum class outcome : std::uint8_t {
    whole,
    partial,
    bad,    // not this protocol, or broken
    other,  // this protocol, but `field` differs: `theirs` against `mine`
  };
  outcome what = outcome::partial;
  std::size_t size = hello_prefix;  // whole: bytes used; partial: bytes needed to continue
  const char* why = "";
  hello_field field = hello_field::none;
  std::uint32_t mine = 0;
  std::uint32_t theirs = 0;
  hello value;
};

namespace detail {

[[nodiscard]] inline const char* fault(const hello& h) noexcept {
  if (h.kind < hello_kind::request || h.kind > hello_kind::exhausted) return "an unknown hello";
  if (h.data_length > (opens(h.kind) ? most_request_data : most_accept_data)) {
    return "more private data than is allowed";
  }
  if (h.recv_depth > most_depth || h.credit > h.recv_depth) return "more receives than allowed";
  return h.read_depth > most_reads ? "more reads than allowed" : nullptr;
}

inline void compare(decoded_hello& d, hello_field field, std::uint32_t mine,
                    std::uint32_t theirs) noexcept {
  if (mine == theirs || d.what == decoded_hello::outcome::other) return;
  d.what = decoded_hello::outcome::other;
  d.field = field;
  d.mine = mine;
  d.theirs = theirs;
}

inline decoded_hello& bad(decoded_hello& d, const char* why) noexcept {
  d.what = decoded_hello::outcome::bad;
  d.why = why;
  return d;
}

}  // namespace detail

[[nodiscard]] inline decoded_hello decode_hello(std::span<const std::byte> bytes) noexcept {
  decoded_hello d;
  const std::size_t known = std::min(bytes.size(), hello_magic.size());
  if (known > 0 && std::memcmp(bytes.data(), hello_magic.data(), known) != 0) {
    return detail::bad(d, "no cordma peer");
  }
  if (bytes.size() < hello_prefix) return d;
  const std::byte* const p = bytes.data();
  hello& h = d.value;
  h.version = load<std::uint16_t>(p + hello_at::version);
  h.kind = static_cast<hello_kind>(p[hello_at::kind]);
  h.type = static_cast<service>(p[hello_at::type]);
  h.data_length = load<std::uint16_t>(p + hello_at::data);
  detail::compare(d, hello_field::version, wire_version, h.version);
  if (d.what == decoded_hello::outcome::other) return d;
  if (load<std::uint16_t>(p + hello_at::fixed) != hello_fixed) {
    return detail::bad(d, "a hello of another length");
  }
  if (h.data_length > most_accept_data) {
    return detail::bad(d, "more private data than is allowed");
  }
  d.size = hello_fixed + h.data_length;
  if (bytes.size() < d.size) return d;
  h.header_bytes = load<std::uint16_t>(p + hello_at::header_bytes);
  h.field = static_cast<hello_field>(p[hello_at::field]);
  h.field_value = load<std::uint32_t>(p + hello_at::field_value);
  h.read_depth = load<std::uint32_t>(p + hello_at::read_depth);
  h.recv_depth = load<std::uint32_t>(p + hello_at::recv_depth);
  h.credit = load<std::uint16_t>(p + hello_at::credit);
  std::memcpy(h.own.data(), p + hello_at::own, sizeof(token));
  std::memcpy(h.peer.data(), p + hello_at::peer, sizeof(token));
  std::memcpy(h.data.data(), p + hello_fixed, h.data_length);
  if (const char* why = detail::fault(h); why != nullptr) return detail::bad(d, why);
  d.what = decoded_hello::outcome::whole;
  if (h.kind != hello_kind::mismatch) {
    detail::compare(d, hello_field::service, static_cast<std::uint32_t>(service::rc),
                    static_cast<std::uint32_t>(h.type));
    detail::compare(d, hello_field::header_bytes, plain_header, h.header_bytes);
  }
  return d;
}

}  // namespace cordma::transport::tcp
