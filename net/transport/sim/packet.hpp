// Simulated packets: typed headers instead of bytes, because nothing outside this process reads
// them, and a payload that is copied when the packet is sent, as a NIC does.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/check.hpp>

#include <array>
#include <memory>
#include <vector>

namespace cordma::transport::sim {

inline constexpr std::uint32_t least_mtu = 256;
inline constexpr std::uint32_t most_mtu = 4096;
// Ethernet, IP, UDP and RDMA headers with their checksums; they count for the time to send a
// packet.
inline constexpr std::uint32_t header_bytes = 66;
inline constexpr std::uint32_t most_connect_data = 56;
inline constexpr std::uint32_t most_accept_data = 196;
static_assert(most_accept_data <= least_mtu, "private data fits a packet");
static_assert(most_connect_data <= most_accept_data && least_mtu <= most_mtu);
// Limit of packets in flight of an RC queue pair, counting responses.
inline constexpr std::uint64_t most_under_way = 64;

// One life of one queue pair on one life of one host. `number` 0: the host's connection manager;
// `instance` 0: the present life of the host.
struct endpoint_id {
  std::uint32_t host = 0;
  std::uint32_t instance = 0;
  std::uint32_t number = 0;
  friend bool operator==(const endpoint_id&, const endpoint_id&) = default;
};

enum class packet_kind : std::uint8_t {
  // RC and UC requests
  send,
  write,
  read_request,
  atomic_request,
  flush_request,
  // RC answers
  ack,
  nak,
  read_response,
  atomic_response,
  // UD
  datagram,
  // connection management
  connect,
  accept,
  ready,
  refuse,
  attach,
  attach_ack,
  bye,
  bye_ack,
};
[[nodiscard]] constexpr bool is_request(packet_kind k) noexcept {
  return k <= packet_kind::flush_request;
}
[[nodiscard]] constexpr bool is_answer(packet_kind k) noexcept {
  return k >= packet_kind::ack && k <= packet_kind::atomic_response;
}
static_assert(is_request(packet_kind::send) && !is_request(packet_kind::ack));
static_assert(is_answer(packet_kind::nak) && !is_answer(packet_kind::datagram));
// host::receive() relies on this order to find the connection manager's packets.
static_assert(packet_kind::datagram < packet_kind::connect &&
              packet_kind::connect < packet_kind::accept);

enum class nak_code : std::uint8_t {
  none,
  sequence,   // a packet is missing: go back to psn
  not_ready,  // no receive for psn
  access,     // the last three end the connection
  invalid,
  operation,
};

// Parameters that the two sides exchange before they are connected.
struct handshake {
  service type = service::rc;
  std::uint16_t port = 0;
  std::uint32_t read_depth = 0;
  std::uint64_t first_psn = 0;
  errc why = errc::ok;            // refuse
  bool graceful = false;          // bye
  nak_code nak = nak_code::none;  // bye of a responder that failed: the NAK may have been lost
  std::uint64_t nak_psn = 0;
};

struct packet {
  packet_kind kind = packet_kind::send;
  opcode op = opcode::send;
  nak_code nak = nak_code::none;
  bool first = false;  // of its message
  bool last = false;
  bool ack_requested = false;
  bool has_imm = false;
  endpoint_id from;
  endpoint_id to;
  std::uint64_t psn = 0;     // 24 bits on a real wire; never wraps here
  std::uint32_t length = 0;  // bytes of payload
  std::uint32_t count = 0;   // read_request: number of requested responses
  std::uint32_t imm = 0;
  std::uint32_t qkey = 0;
  std::uint64_t total = 0;  // bytes of the complete message, or requested by this read_request
  std::uint64_t remote_addr = 0;  // of this packet's bytes
  std::uint64_t rkey = 0;
  std::uint64_t operand = 0;  // atomic_response: the old value
  std::uint64_t swap = 0;
  handshake cm;

  std::byte* payload = nullptr;
  packet* next_free = nullptr;
  bool is_free = false;
};

// The pool returns no packet to the heap before it is destroyed: none is allocated once it is warm.
class packet_pool {
 public:
  explicit packet_pool(std::uint32_t payload_bytes) noexcept : payload_bytes_(payload_bytes) {}
  // Returns a packet that is blank except for its payload.
  [[nodiscard]] packet& take() {
    if (free_ == nullptr) grow();
    packet& p = *free_;
    CORDMA_ASSERT(p.is_free);
    free_ = p.next_free;
    std::byte* const payload = p.payload;
    p = packet{};
    p.payload = payload;
    ++taken_;
    return p;
  }
  // REQUIRES that it was taken and not returned since.
  void give(packet& p) noexcept {
    CORDMA_REQUIRE(!p.is_free);
    CORDMA_REQUIRE_OP(taken_, >, 0U);
    --taken_;
    put(p);
  }
  // Number of packets in use.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }

 private:
  static constexpr std::size_t packets_per_chunk = 64;
  void put(packet& p) noexcept {
    p.is_free = true;
    p.next_free = free_;
    free_ = &p;
  }
  struct chunk {
    std::array<packet, packets_per_chunk> packets;
    std::unique_ptr<std::byte[]> payloads;
  };
  void grow() {
    auto c = std::make_unique<chunk>();
    c->payloads = std::make_unique<std::byte[]>(packets_per_chunk * payload_bytes_);
    for (std::size_t i = 0; i < packets_per_chunk; ++i) {
      c->packets[i].payload = c->payloads.get() + i * payload_bytes_;
      put(c->packets[i]);
    }
    chunks_.push_back(std::move(c));
  }
  std::uint32_t payload_bytes_;
  std::size_t taken_ = 0;
  packet* free_ = nullptr;
  std::vector<std::unique_ptr<chunk>> chunks_;
};

}  // namespace cordma::transport::sim
