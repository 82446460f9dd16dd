// A request that carries a frame, or bytes of a rendezvous message.
#pragma once

#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/messages.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace cordma::detail {

class fetch;
class open_offer;
class peer_core;
class rail_core;

// A request to a queue pair, with a buffer for the head of a frame and a short body.
struct frame_entry {
  enum class use : std::uint8_t { free, message, control, read, part };
  static constexpr std::uint32_t bytes = 512;
  use what = use::free;
  std::uint8_t pinned = 0;
  std::uint32_t index = 0;
  std::uint32_t lkey = 0;
  std::byte* data = nullptr;
  frame_entry* next_free = nullptr;
  peer_core* peer = nullptr;
  message_send* op = nullptr;  // null: destroyed meanwhile, or none
  fetch* reads_for = nullptr;
  rail_core* over = nullptr;  // for a read over another connection than its peer's own
  std::uint8_t piece = 0;     // of a read
  std::uint32_t length = 0;   // of a read
  open_offer* part_of = nullptr;
  std::array<region_core*, most_message_slices> pins{};
};

// All bodies written into an entry fit, and are short enough for every peer.
static_assert(frame_entry::bytes >= protocol::head_bytes + protocol::hello_bytes);
static_assert(frame_entry::bytes >= protocol::head_bytes + protocol::want_bytes);
static_assert(frame_entry::bytes >= protocol::head_bytes + protocol::longest_descriptor);
static_assert(frame_entry::bytes >= protocol::head_bytes +
                                        protocol::bytes_of_offer(most_message_slices, 1) +
                                        most_am_header);
static_assert(frame_entry::bytes <= protocol::least_eager_bytes);
static_assert(most_message_slices <= protocol::most_parts, "an offer names each slice");
static_assert(most_message_slices <= std::numeric_limits<decltype(frame_entry::pinned)>::max());
static_assert(protocol::most_rails <= std::numeric_limits<decltype(frame_entry::piece)>::max());

}  // namespace cordma::detail
