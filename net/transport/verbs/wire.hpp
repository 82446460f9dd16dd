// The messages of verbs connections beside the data: the head of the private data of rdma_cm, the
// datagrams between control ports, and the descriptor that users carry. Pure.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cordma::transport::verbs {

inline constexpr std::uint8_t wire_version = 1;

// ---- private data of rdma_cm: this head, then the user's bytes ----
// offset 0  u8  magic (high four bits) and version (low four)
//        1  u8  kind : 2, service : 2, MTU code : 3, zero : 1, from the low bit on
//        2  u8  rnr timer code : 5, rights the peer gets : 3
//        3  u8  length of the user's bytes; the rest is padding of rdma_cm
//        4  u24 queue pair number of the control port, little-endian; 0: none
//        7  u8  zero
inline constexpr std::size_t hello_bytes = 8;
inline constexpr std::uint8_t hello_magic = 0xC0;
static_assert((hello_magic & 0x0F) == 0 && wire_version <= 0x0F, "they share a byte");

// Capacity of rdma_cm: a request has 92 bytes, of which it uses 36 itself; a reply has 196, a
// reject 148.
inline constexpr std::size_t cm_request_bytes = 56;
inline constexpr std::size_t cm_reply_bytes = 196;
inline constexpr std::size_t cm_reject_bytes = 148;
inline constexpr std::size_t most_request_data = cm_request_bytes - hello_bytes;
inline constexpr std::size_t most_accept_data = cm_reject_bytes - hello_bytes;
static_assert(cm_reject_bytes <= cm_reply_bytes, "one limit holds for accepts and rejects");
static_assert(most_request_data == 48 && most_accept_data == 140);
static_assert(most_accept_data <= UINT8_MAX, "the length of the user's bytes is one byte");

enum class hello_kind : std::uint8_t { request = 0, accept = 1, reject = 2, mismatch = 3 };
static_assert(static_cast<unsigned>(hello_kind::mismatch) < (1U << 2), "a kind has two bits");
static_assert(service_count <= (1U << 2), "a service has two bits");

struct hello {
  hello_kind kind = hello_kind::request;
  service type = service::rc;
  std::uint8_t version = wire_version;
  std::uint8_t mtu = 0;  // code; the smaller one of both sides applies
  std::uint8_t rnr_timer = 0;
  access rights = all_remote;  // remote bits only
  std::uint32_t control_pair = 0;
};

// Private data in a separate buffer; no allocation.
struct private_data {
  std::array<std::byte, cm_reply_bytes> bytes{};
  std::uint8_t length = 0;
};
static_assert(cm_reply_bytes <= UINT8_MAX);
static_assert(cm_request_bytes <= cm_reply_bytes, "private_data holds what a request carries");
// REQUIRES user.size() within the limits above.
[[nodiscard]] private_data encode(const hello& h, std::span<const std::byte> user) noexcept;

// For peer_kind::plain: the user's bytes without a head. REQUIRES them within the limits above.
[[nodiscard]] private_data without_head(std::span<const std::byte> user) noexcept;

struct decoded_hello {
  enum class outcome : std::uint8_t { good, other_version, not_ours };
  outcome what = outcome::not_ours;
  hello value;
  std::span<const std::byte> user;  // within the decoded bytes
};
[[nodiscard]] decoded_hello decode(std::span<const std::byte> bytes) noexcept;
// Decodes the private data of a client's request; a plain client's data belongs to the user.
[[nodiscard]] decoded_hello decode_request(std::span<const std::byte> bytes,
                                           peer_kind whom) noexcept;

// ---- datagrams between control ports ----
// Little-endian: magic 4, version 1, kind 1, count 2, to pair 4, from pair 4, to token 8, from token 8.
enum class word : std::uint8_t {
  goodbye = 1,   // posted requests are carried out, no more will follow
  attach = 2,    // out of band: I am connected to you
  attached = 3,  // ... and I to you
  unknown = 4,   // this queue pair does not exist here, or does not exist any more
  sent = 5,  // over UC I sent `count` messages of few packets that consume a receive, modulo 2^16
  heard = 6  // answer to goodbye; never answered, so that two ended connections fall silent
};
struct control_message {
  word what = word::goodbye;
  std::uint16_t count = 0;  // word::sent
  std::uint32_t to_pair = 0;
  std::uint32_t from_pair = 0;
  std::uint64_t to_token = 0;  // tokens distinguish successive uses of a queue pair number
  std::uint64_t from_token = 0;
};
inline constexpr std::size_t control_bytes = 32;
static_assert(4 + 1 + 1 + 2 + 4 + 4 + 8 + 8 == control_bytes);
static_assert(static_cast<int>(word::goodbye) == 1 && static_cast<int>(word::heard) == 6);
inline constexpr std::uint32_t control_qkey = 0x0C0D3A01;  // not privileged: the high bit is clear
static_assert((control_qkey >> 31) == 0 && control_qkey != bound_qkey);
void encode(const control_message& m, std::span<std::byte, control_bytes> out) noexcept;
[[nodiscard]] bool decode(std::span<const std::byte> in, control_message& m) noexcept;

// ---- the descriptor that the user carries from one side to the other ----
// Little-endian: magic 8, version 2, service 1, MTU code 1, pair 4, first PSN 4, control pair 4,
// LID 2, rights 1, rnr timer code 1, read depth 2, zero 2, GID 16, token 8, CRC-32 of all before 4.
struct pair_descriptor {
  service type = service::rc;
  std::uint8_t mtu = 0;
  std::uint8_t rnr_timer = 0;
  access rights = all_remote;
  std::uint16_t lid = 0;
  std::uint16_t read_depth = 0;
  std::uint32_t pair = 0;
  std::uint32_t first_psn = 0;
  std::uint32_t control_pair = 0;
  std::uint64_t token = 0;
  std::array<std::byte, 16> gid{};
};
inline constexpr std::size_t descriptor_bytes = 60;
static_assert(8 + 2 + 1 + 1 + 3 * 4 + 2 + 1 + 1 + 2 + 2 + 16 + 8 + 4 == descriptor_bytes);
[[nodiscard]] std::vector<std::byte> encode(const pair_descriptor& d);
// connection_aborted: not a descriptor of this transport, or damaged. unsupported_version.
[[nodiscard]] result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes);

// ---- destination of a datagram: the form inside datagram_peer::address ----
// GID 16, LID 2 (little-endian), and 1 for a group.
struct datagram_address {
  std::array<std::byte, 16> gid{};
  std::uint16_t lid = 0;
  bool group = false;
};
inline constexpr std::uint32_t group_pair = 0xFFFFFF;
inline constexpr std::size_t datagram_address_bytes = 16 + 2 + 1;
static_assert(datagram_address_bytes <= sizeof(datagram_peer::address));
[[nodiscard]] datagram_peer encode(const datagram_address& a, std::uint32_t pair,
                                   std::uint32_t qkey) noexcept;
// Returns false for an address of another transport.
[[nodiscard]] bool decode(const datagram_peer& p, datagram_address& a) noexcept;

// Returns the sender's GID from the 40 bytes before a datagram: the GRH, or an IPv4 header in the
// last 20.
inline constexpr std::size_t grh_bytes = 40;
[[nodiscard]] std::array<std::byte, 16> sender_of(
    std::span<const std::byte, grh_bytes> header) noexcept;

}  // namespace cordma::transport::verbs
