// The table of requests in flight, with one slot for each, and the ids by which completions find
// their slots.
#pragma once

#include <cordma/net/operations.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/ticks.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace cordma::detail {

class endpoint_core;

// For a receive that succeeded.
[[nodiscard]] inline Received to_received(const transport::completion& c) noexcept {
  return {
      .bytes = c.byte_len, .imm = c.imm, .has_imm = c.has_imm, .op = c.op, .invalidated = c.key};
}

// One request in flight.
struct slot {
  post_base* op = nullptr;            // null: free, or detached
  endpoint_core* endpoint = nullptr;  // null: free
  std::uint64_t id = 0;               // of its request; while free, of the next one
  slot* next = nullptr;               // in the free list, or in a list of its endpoint
  std::uint8_t pinned = 0;
  bool is_recv = false;
  // An orphan: the rest of a receive into a pool that was canceled while posted. It is the last
  // posted receive into a pool, since later ones move up. Its message is not lost: the endpoint's
  // next receive into a pool takes over the slot, whether or not the message has arrived yet.
  bool orphan = false;
  bool arrived = false;
  coarse_time since = 0;  // in use: the time of the post
  Received received;
  // Resources of a detached operation, kept until its completion is reaped.
  Buffer lease;
  std::array<region_core*, most_segments> pins{};
};
static_assert(most_segments <= std::numeric_limits<decltype(slot::pinned)>::max());
static_assert(std::is_trivially_copyable_v<Received>, "kept beside the slot, and copied out of it");

inline constexpr std::uint32_t slots_per_chunk = 256;
inline constexpr std::uint32_t most_reserved = 1U << 14;  // slots; 2 MB
inline constexpr std::uint32_t generation_mask = 0xFFFFFFU;
inline constexpr std::uint8_t id_type_request = 1;
// The id of a request: {generation : 24, type : 8, index : 32}. The generation is in the top bits,
// so that it wraps around by itself.
inline constexpr std::uint64_t one_generation = std::uint64_t{1} << 40;
[[nodiscard]] constexpr std::uint64_t request_id(std::uint32_t index,
                                                 std::uint32_t generation) noexcept {
  return generation * one_generation | (std::uint64_t{id_type_request} << 32) | index;
}
[[nodiscard]] constexpr std::uint32_t index_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id);
}
[[nodiscard]] constexpr std::uint8_t type_of(std::uint64_t id) noexcept {
  return static_cast<std::uint8_t>(id >> 32);
}
[[nodiscard]] constexpr std::uint32_t generation_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id >> 40);
}
static_assert(std::has_single_bit(slots_per_chunk), "a slot is found by a shift and a mask");
static_assert(most_reserved % slots_per_chunk == 0);
static_assert(generation_mask == generation_of(~std::uint64_t{0}));
static_assert(index_of(request_id(UINT32_MAX, generation_mask)) == UINT32_MAX);
static_assert(type_of(request_id(UINT32_MAX, generation_mask)) == id_type_request);
static_assert(generation_of(request_id(UINT32_MAX, generation_mask)) == generation_mask);
static_assert(request_id(7, generation_mask) + one_generation == request_id(7, 0),
              "it wraps around, and leaves index and type alone");
static_assert(request_id(0, 0) != 0, "0 is not the id of a request");

struct slot_chunk {
  std::array<slot, slots_per_chunk> slots;
  MemoryRegion words;  // 8 bytes per slot for the old value of an atomic; allocated at first use
  // The peer of each slot's datagram; allocated once the worker has a datagram port.
  std::unique_ptr<std::array<transport::datagram_peer, slots_per_chunk>> peers;
};
static_assert(std::is_trivially_copyable_v<transport::datagram_peer>,
              "a transport writes it where the slot is, and no operation need be there");

}  // namespace cordma::detail
