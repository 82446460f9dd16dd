// The layout of the memory shared by the two ends of a connection. Both processes run on one host,
// so numbers are native, except immediates, which are big endian as on every wire.
//
//   channel file:  [control 4096][slot 0 8192][slot 1 8192][ring 0][ring 1]
//
// Ring, slot and control number 0 carry the requests of the connecting side, number 1 those of the
// accepting side. Values read from here are not trusted: they are copied once, then checked.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cordma::transport::shm {

inline constexpr std::size_t cell_bytes = 64;  // one cache line
inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::uint32_t least_ring_bytes = 4096;
inline constexpr std::uint32_t most_ring_bytes = 1U << 28;
inline constexpr std::uint32_t most_segments = 8;  // per request, as in net/
static_assert(std::has_single_bit(cell_bytes) && page_bytes % cell_bytes == 0);
static_assert(std::has_single_bit(least_ring_bytes) && std::has_single_bit(most_ring_bytes));
static_assert(least_ring_bytes % page_bytes == 0, "rings are mapped by pages");

enum class message : std::uint8_t {
  send = 1,   // payload inline
  send_imm,   // the same, with an immediate
  fetch,      // payload: pieces; the receiver fetches them from the sender's memory
  fetch_imm,  // the same, with an immediate
  write_imm,  // no payload; `length` bytes were written elsewhere
  serve,      // payload: service_request; the target accesses its memory itself
  bye,        // the sender closed gracefully; the last message
};
// Receivers distinguish kinds by their order.
static_assert(message::send < message::send_imm && message::send_imm < message::fetch,
              "payload inline comes first");
static_assert(message::fetch_imm < message::write_imm && message::write_imm < message::serve,
              "what needs a receive comes before what needs none");

namespace message_flag {
inline constexpr std::uint8_t continues = 1;  // more fragments of this message follow
inline constexpr std::uint8_t continued = 2;  // not the first fragment
static_assert((continues & continued) == 0);
}  // namespace message_flag

// A message begins at a cell boundary with this header. Its payload follows at once and continues
// through the next cells. `stamp` and `length` are published last, as one 8-byte store.
struct cell_header {
  std::uint32_t stamp;   //  0: odd, twice the lap: valid if it is the expected one
  std::uint32_t length;  //  4: bytes of payload; write_imm: bytes written
  message what;          //  8
  std::uint8_t flags;    //  9: message_flag
  std::uint16_t pieces;  // 10: fetch only
  std::uint32_t imm;     // 12: big endian
};
static_assert(sizeof(cell_header) == 16 && offsetof(cell_header, length) == 4);
static_assert(offsetof(cell_header, what) == 8 && offsetof(cell_header, imm) == 12);
static_assert(offsetof(cell_header, flags) == 9 && offsetof(cell_header, pieces) == 10);
static_assert(std::has_unique_object_representations_v<cell_header>, "no byte of it is padding");
inline constexpr std::size_t inline_payload = cell_bytes - sizeof(cell_header);
static_assert(inline_payload == 48, "small messages travel in one cache line");

[[nodiscard]] constexpr std::uint64_t cells_for(std::uint64_t payload) noexcept {
  return (sizeof(cell_header) + payload + cell_bytes - 1) / cell_bytes;
}
static_assert(cells_for(0) == 1 && cells_for(inline_payload) == 1);
static_assert(cells_for(inline_payload + 1) == 2 && cells_for(inline_payload + cell_bytes) == 2);

// A part of a message that stays in the sender's memory.
struct piece {
  std::uint32_t lkey;    //  0: of a region offered over the socket; 0: private memory
  std::uint32_t epoch;   //  4: of that region
  std::uint64_t where;   //  8: offset in the region, or address in the sender's process
  std::uint64_t length;  // 16: bytes
};
static_assert(sizeof(piece) == 24 && std::has_unique_object_representations_v<piece>);
static_assert(offsetof(piece, epoch) == 4 && offsetof(piece, where) == 8);
static_assert(offsetof(piece, length) == 16);
inline constexpr std::size_t most_descriptor_bytes = most_segments * sizeof(piece);
static_assert(cells_for(most_descriptor_bytes) * 8 <= least_ring_bytes / cell_bytes);

enum class service_kind : std::uint32_t { write = 1, read, fetch_add, compare_swap };

// An access that the target carries out for an initiator that cannot reach the memory. The response
// is in the slot; one request is in flight per direction.
struct service_request {
  service_kind what;      //  0
  std::uint32_t length;   //  4: bytes; the data of a write follow this struct
  std::uint64_t rkey;     //  8
  std::uint64_t addr;     // 16
  std::uint64_t operand;  // 24
  std::uint64_t swap;     // 32
};
static_assert(sizeof(service_request) == 40 &&
              std::has_unique_object_representations_v<service_request>);
static_assert(offsetof(service_request, length) == 4 && offsetof(service_request, rkey) == 8);
static_assert(offsetof(service_request, addr) == 16 && offsetof(service_request, operand) == 24);
static_assert(offsetof(service_request, swap) == 32);

struct service_slot {
  std::uint32_t status;  // wc_status
  std::uint32_t unused;
  std::uint64_t old_value;
  std::byte reserved[48];
  std::byte data[8192 - 64];
};
static_assert(sizeof(service_slot) == 8192 && offsetof(service_slot, data) == 64);
static_assert(offsetof(service_slot, status) == 0 && offsetof(service_slot, old_value) == 8);
static_assert(sizeof(service_slot::data) % sizeof(std::uint64_t) == 0);

enum class end_of_stream : std::uint32_t { open = 0, withdrawn = 1, graceful = 2 };

// Every line has one writer. Lines are used in pairs, because processors fetch them in pairs.
struct ring_control {
  // Written by the consumer of the ring.
  alignas(128) std::atomic<std::uint64_t> taken;  // total cells consumed; published late
  std::atomic<std::uint64_t> fetched;             // total fetch messages copied completely
  std::atomic<std::uint64_t> served;              // total service requests answered
  std::atomic<std::uint64_t> held_up;  // total looks at the ring that ended before a message
  // Written by the producer: set while it waits for a change of a counter above.
  alignas(128) std::atomic<std::uint32_t> waiting;
  std::atomic<end_of_stream> ended;
  // Written by the producer: total entries into memory that the consumer registered, and exits from
  // it. Odd: it is inside.
  alignas(128) std::atomic<std::uint32_t> accessing;
};
static_assert(sizeof(ring_control) == 384);
static_assert(offsetof(ring_control, taken) == 0 && offsetof(ring_control, fetched) == 8);
static_assert(offsetof(ring_control, served) == 16 && offsetof(ring_control, held_up) == 24);
static_assert(offsetof(ring_control, waiting) == 128 && offsetof(ring_control, ended) == 132);
static_assert(offsetof(ring_control, accessing) == 256);

// Increments a counter; called by its only writer. A reader that changed it would only harm itself.
inline void count_up(std::atomic<std::uint64_t>& counter) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

struct control_page {
  ring_control direction[2];
};
static_assert(sizeof(control_page) == 768 && sizeof(control_page) <= page_bytes);

inline constexpr std::size_t slots_at = page_bytes;
inline constexpr std::size_t rings_at = slots_at + 2 * sizeof(service_slot);
static_assert(slots_at == 4096 && rings_at == 20480);
static_assert(rings_at % page_bytes == 0);
[[nodiscard]] constexpr std::size_t channel_bytes(std::size_t ring_bytes) noexcept {
  return rings_at + 2 * ring_bytes;
}
static_assert(channel_bytes(least_ring_bytes) == 28672);

// One per adapter, mapped by all its peers, writable only by the adapter.
struct adapter_page {
  alignas(128) std::atomic<std::uint32_t> may_sleep;  // 0: the adapter only polls: no fence needed
  alignas(128) std::atomic<std::uint32_t> nap;        // number of its current sleep; 0: awake
};
static_assert(sizeof(adapter_page) == 256 && sizeof(adapter_page) <= page_bytes);
static_assert(offsetof(adapter_page, may_sleep) == 0 && offsetof(adapter_page, nap) == 128);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<end_of_stream>::is_always_lock_free);

}  // namespace cordma::transport::shm
