// A message that is received in several steps: in fragments, or fetched from the peer's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/shm/cell.hpp>
#include <cordma/runtime/check.hpp>
#include <cstring>
#include <span>
#include <utility>

namespace cordma::transport::shm {

enum class arrival : std::uint8_t { none, in_fragments, fetched };
[[nodiscard]] constexpr bool operator>>(arrival from, arrival to) noexcept {
  return from != to && (from == arrival::none || to == arrival::none);
}

// Bound to the adapter's thread.
class arriving_message {
 public:
  [[nodiscard]] bool is_in_fragments() const noexcept { return now_ == arrival::in_fragments; }
  [[nodiscard]] bool is_fetched() const noexcept { return now_ == arrival::fetched; }
  // Bytes that are in the receive.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  // Adds a fragment and returns the bytes so far. After the last fragment, is_in_fragments() is
  // false.
  [[nodiscard]] std::uint64_t add_fragment(const cell_header& h) noexcept {
    bytes_ += h.length;
    const bool ends = (h.flags & message_flag::continues) == 0;
    if (!ends && !is_in_fragments()) now_.become(arrival::in_fragments);
    return ends ? finish() : bytes_;
  }

  // Reads a descriptor from `payload`. False: the message is longer than `most` bytes.
  [[nodiscard]] bool describe(const cell_header& h, const std::byte* payload,
                              std::uint64_t most) noexcept {
    CORDMA_ASSERT_OP(h.pieces, <=, pieces_.size());
    CORDMA_ASSERT_OP(now_, ==, arrival::none);
    std::memcpy(pieces_.data(), payload, h.length);
    descriptor_ = h;
    index_ = 0;
    in_piece_ = bytes_ = total_ = 0;
    return std::ranges::all_of(std::span(pieces_).first(h.pieces), [&](const piece& p) {
      return p.length <= most && (total_ += p.length) <= most;
    });
  }
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  void fetch() noexcept { now_.become(arrival::fetched); }

  // REQUIRES is_fetched(), like the functions below up to add().
  [[nodiscard]] const cell_header& descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_whole() const noexcept { return index_ == descriptor_.pieces; }
  // REQUIRES not is_whole(). The piece to fetch next, the position in it, and the bytes left of it.
  [[nodiscard]] const piece& next() const noexcept { return pieces_[index_]; }
  [[nodiscard]] std::uint64_t where() const noexcept { return next().where + in_piece_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return next().length - in_piece_; }
  void add(std::uint64_t bytes) noexcept {
    in_piece_ += bytes;
    bytes_ += bytes;
    if (in_piece_ != next().length) return;
    ++index_;
    in_piece_ = 0;
  }
  // Returns the total bytes of the message.
  std::uint64_t finish() noexcept {
    CORDMA_ASSERT(!is_fetched() || (is_whole() && bytes_ == total_));
    if (now_ != arrival::none) now_.become(arrival::none);
    return std::exchange(bytes_, 0);
  }

 private:
  checked_state<arrival> now_{arrival::none};
  std::uint64_t bytes_ = 0;
  cell_header descriptor_{};
  std::array<piece, most_segments> pieces_;
  std::uint32_t index_ = 0;
  std::uint64_t in_piece_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace cordma::transport::shm
