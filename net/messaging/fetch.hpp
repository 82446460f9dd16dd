// A long message of the peer, from its receive to the last byte.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/rails.hpp>
#include <cordma/net/transport/transport.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace cordma::detail {

struct frame_entry;
struct peer_core;

// Bytes of one read or write: devices take less at a time than messages may be long.
inline constexpr std::uint64_t longest_request = 1U << 30;
static_assert(longest_request <= UINT32_MAX, "a segment says its length in 32 bits");

// What one rail reads of a message: its bytes from `begin` to `end` are not here yet.
struct fetch_piece {
  std::uint64_t begin = 0;
  std::uint64_t at = 0;  // up to here they are asked for
  std::uint64_t end = 0;
  std::uint32_t reads = 0;  // in flight
  std::uint8_t rail = 0;
  bool again =
      false;  // a read failed, and its rail with it: all that is not here is to be read once more
};

// A message that the peer has announced and that is wanted.
struct fetch : list_node {
  enum class by : std::uint8_t {
    reads,   // of the peer's memory
    writes,  // by the peer, to where it belongs
    parts,   // frames of it
  };
  void settle() noexcept;
  // settle() comes next, once the entry is free.
  void read_done(const frame_entry& e, const transport::completion& c) noexcept;
  [[nodiscard]] bool all_here() const noexcept;
  [[nodiscard]] std::span<fetch_piece> all_pieces() noexcept {
    return std::span(pieces).first(piece_count);
  }

  peer_core* peer = nullptr;
  message_receive* op = nullptr;  // null: destroyed meanwhile
  protocol::offer from;
  std::uint64_t tag = 0;
  Slice into;
  MemoryRegion keeps;        // where the receive was destroyed
  std::uint64_t wanted = 0;  // bytes: what fits
  std::uint64_t asked = 0;   // of what is written or sent
  std::uint64_t got = 0;     // likewise
  by way = by::reads;
  std::uint8_t piece_count = 0;
  std::array<fetch_piece, protocol::most_rails> pieces;  // of what is read
  std::uint32_t reads = 0;                               // in flight
  bool reading = false;                                  // in read_on(): it finishes there
  std::optional<failure> broken;
  fetch* next_free = nullptr;
};

}  // namespace cordma::detail
