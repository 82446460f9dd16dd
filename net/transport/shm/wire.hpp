// The packets that the two ends exchange over the rendezvous socket (SOCK_SEQPACKET: one packet per
// struct). The first eight bytes never change between versions.
#pragma once

#include <array>
#include <cordma/net/transport/shm/cell.hpp>
#include <cordma/net/transport/shm/local_host.hpp>
#include <cordma/net/transport/types.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace cordma::transport::shm {

inline constexpr std::uint32_t wire_magic = 0x6d726473;  // "sdrm"
inline constexpr std::uint16_t wire_version = 2;

enum class packet : std::uint16_t {
  hello = 1,       // introduction; descriptors: channel, doorbell, adapter page, epochs
  accept,          // introduction; descriptors: doorbell, adapter page, epochs
  reject,          // refusal, by the application
  refuse,          // refusal, by the transport: `code` and `text` are the reason
  mismatch,        // refusal: `text` names the field, `mine` and `theirs` its values
  reachable,       // the sender of this can read the receiver's private memory
  region_request,  // region_packet: requests the region of this rkey
  region_answer,   // region_packet; with a descriptor if it can be mapped
  region_offer,    // region_packet and a descriptor: the peer may fetch messages from this region
  fault,           // fault_packet: the connection is over
};

struct packet_header {
  std::uint32_t magic;
  std::uint16_t version;
  packet type;
};
static_assert(static_cast<int>(packet::hello) == 1 && static_cast<int>(packet::fault) == 10);
static_assert(sizeof(packet_header) == 8 && offsetof(packet_header, version) == 4);
static_assert(offsetof(packet_header, type) == 6);

struct bare_packet {
  packet_header head;
};
static_assert(sizeof(bare_packet) == sizeof(packet_header));

// Addresses in a hello. For a name with more addresses of one machine, the first ones are sent.
inline constexpr std::size_t most_wanted = 8;

struct introduction {
  packet_header head;
  std::uint32_t cell_size;      //  8: must be equal on both sides
  std::uint32_t ring_size;      // 12: hello only: bytes per direction
  std::uint64_t rnr_timer_ns;   // 16: of the sender of messages
  std::uint64_t probe_address;  // 24: address of `probe_value` in the sender's memory
  std::uint64_t probe_value;    // 32
  std::uint64_t token;          // 40: out-of-band connecting: token of the descriptor; else 0
  std::uint32_t pid;            // 48: pid in the sender's process namespace; only for texts
  std::uint8_t rnr_retry;       // 52
  std::uint8_t fences_itself;   // 53: its accesses are ordered without barrier_joined()
  std::uint8_t reads_peer;      // 54: accept only: the sender can read the receiver's memory
  std::uint8_t data_bytes;      // 55
  std::array<std::byte, 200> data;
  // Hello only, and 0 if the destination is from a descriptor: the network namespace of the sender,
  // and the addresses that it requests. Empty: any.
  std::uint64_t namespace_device;  // 256
  std::uint64_t namespace_inode;   // 264
  std::array<ip_address, most_wanted> wanted;
  std::uint64_t wanted_count;  // 400
};
static_assert(sizeof(introduction) == 408 && offsetof(introduction, data) == 56 &&
              offsetof(introduction, wanted) == 272);
static_assert(offsetof(introduction, cell_size) == 8 && offsetof(introduction, ring_size) == 12);
static_assert(offsetof(introduction, rnr_timer_ns) == 16);
static_assert(offsetof(introduction, probe_address) == 24);
static_assert(offsetof(introduction, probe_value) == 32 && offsetof(introduction, token) == 40);
static_assert(offsetof(introduction, pid) == 48 && offsetof(introduction, rnr_retry) == 52);
static_assert(offsetof(introduction, fences_itself) == 53);
static_assert(offsetof(introduction, reads_peer) == 54);
static_assert(offsetof(introduction, data_bytes) == 55);
static_assert(offsetof(introduction, namespace_device) == 256);
static_assert(offsetof(introduction, namespace_inode) == 264);
static_assert(offsetof(introduction, wanted_count) == 400);
static_assert(std::has_unique_object_representations_v<introduction>);
static_assert(sizeof(introduction::data) <= UINT8_MAX, "data_bytes counts them");

struct refusal {
  packet_header head;
  errc code;
  std::uint8_t data_bytes;
  std::uint16_t unused;
  std::uint32_t mine;
  std::uint32_t theirs;
  std::array<char, 160> text;
  std::array<std::byte, 200> data;
};
static_assert(sizeof(refusal) == 380 && offsetof(refusal, code) == 8);
static_assert(offsetof(refusal, data_bytes) == 9 && offsetof(refusal, mine) == 12);
static_assert(offsetof(refusal, theirs) == 16 && offsetof(refusal, text) == 20);
static_assert(offsetof(refusal, data) == 180 && sizeof(refusal::data) <= UINT8_MAX);
static_assert(std::has_unique_object_representations_v<refusal>);

struct region_packet {
  packet_header head;
  std::uint64_t rkey;
  std::uint64_t addr;
  std::uint64_t length;  // 0 in an answer: no such key
  std::uint32_t lkey;    // of the owner: index of its epoch
  std::uint32_t epoch;
  access rights;
  std::array<std::uint8_t, 7> unused;
};
static_assert(sizeof(region_packet) == 48 && offsetof(region_packet, rkey) == 8);
static_assert(offsetof(region_packet, addr) == 16 && offsetof(region_packet, length) == 24);
static_assert(offsetof(region_packet, lkey) == 32 && offsetof(region_packet, epoch) == 36);
static_assert(offsetof(region_packet, rights) == 40);
static_assert(std::has_unique_object_representations_v<region_packet>);

struct fault_packet {
  packet_header head;
  std::uint64_t position;  // in the receiver's outgoing ring: the message at fault; or no_position
  errc code;
  std::uint8_t status;  // wc_status for that message
  std::array<char, 166> text;
};
static_assert(sizeof(fault_packet) == 184 && offsetof(fault_packet, position) == 8);
static_assert(offsetof(fault_packet, code) == 16 && offsetof(fault_packet, status) == 17);
static_assert(offsetof(fault_packet, text) == 18);
static_assert(std::has_unique_object_representations_v<fault_packet>);
inline constexpr std::uint64_t no_position = ~std::uint64_t{0};

inline constexpr std::size_t most_packet_bytes = 512;
inline constexpr std::size_t most_packet_fds = 4;
static_assert(sizeof(introduction) <= most_packet_bytes && sizeof(refusal) <= most_packet_bytes);
static_assert(sizeof(region_packet) <= most_packet_bytes);
static_assert(sizeof(fault_packet) <= most_packet_bytes);

template <class Packet>
[[nodiscard]] Packet make_packet(packet type) noexcept {
  Packet p{};
  p.head = {wire_magic, wire_version, type};
  return p;
}

template <std::size_t N>
void put_text(std::array<char, N>& to, std::string_view from) noexcept {
  const std::size_t n = from.size() < N - 1 ? from.size() : N - 1;
  std::memcpy(to.data(), from.data(), n);
  to[n] = '\0';
}
// Ends at the first zero or at the end; printable characters only, because the peer sent it.
[[nodiscard]] std::string get_text(std::span<const char> from);

// False: the bytes are no packet of this type and version.
template <class Packet>
[[nodiscard]] bool parse(std::span<const std::byte> bytes, Packet& to) noexcept {
  if (bytes.size() != sizeof(Packet)) return false;
  std::memcpy(&to, bytes.data(), sizeof(Packet));
  return true;
}

// Result of the checks that come first; `fine` if the packet may be read.
struct header_verdict {
  enum class what : std::uint8_t { fine, malformed, version } is;
  packet type;
  std::uint32_t theirs;
};
[[nodiscard]] header_verdict inspect(std::span<const std::byte> bytes) noexcept;

[[nodiscard]] refusal make_refusal(packet type, errc code, std::string_view text) noexcept;

}  // namespace cordma::transport::shm
