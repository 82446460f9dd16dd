// A rendezvous message of the peer, from its receive to the last byte.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/rails.hpp>
#include <cordma/net/transport/transport.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace cordma::detail {

struct frame_entry;
class peer_core;

// Limit of one read or write, in bytes; the limit of devices is lower than that of messages.
inline constexpr std::uint64_t longest_request = 1U << 30;
static_assert(longest_request <= UINT32_MAX, "a segment says its length in 32 bits");

// The part of a message that one rail reads: its bytes from `begin` to `end` have not arrived yet.
struct fetch_piece {
  std::uint64_t begin = 0;
  std::uint64_t at = 0;  // reads are posted up to here
  std::uint64_t end = 0;
  std::uint32_t reads = 0;  // in flight
  std::uint8_t rail = 0;
  bool again = false;  // a read failed, and its rail: re-read all bytes that are missing
};

// A message that the peer has announced and that matches a receive.
class fetch : public list_node {
 public:
  enum class by : std::uint8_t {
    reads,   // of the peer's memory
    writes,  // by the peer, into the receive's memory
    parts,   // frames of the message
  };
  // Starts a free fetch for `op`: as many bytes as fit.
  void begin(peer_core& peer, message_receive& op, const protocol::offer& from, std::uint64_t tag,
             const Slice& into) noexcept {
    CORDMA_ASSERT(!linked());
    CORDMA_ASSERT_OP(reads_, ==, 0U);
    peer_ = &peer;
    op_ = &op;
    from_ = from;
    tag_ = tag;
    into_ = into;
    wanted_ = std::min<std::uint64_t>(from.total, into.size());
  }
  void go_by(by way) noexcept { way_ = way; }
  void move_to(message_receive& op) noexcept { op_ = &op; }
  // The receive is destroyed: its memory is kept until the end.
  void outlive(MemoryRegion into) noexcept {
    keeps_ = std::move(into);
    op_ = nullptr;
  }
  // Ends it and makes it free. REQUIRES that nothing of it is in flight.
  void reset() noexcept {
    CORDMA_ASSERT_OP(reads_, ==, 0U);
    unlink();
    keeps_ = MemoryRegion();
    broken_.reset();
    op_ = nullptr;
    asked_ = got_ = 0;
    piece_count_ = 0;
  }

  [[nodiscard]] const protocol::offer& from() const noexcept { return from_; }
  [[nodiscard]] bool is(std::uint32_t number, by way) const noexcept {
    return from_.number == number && way_ == way;
  }
  [[nodiscard]] by way() const noexcept { return way_; }
  [[nodiscard]] const Slice& into() const noexcept { return into_; }
  // Bytes that fit into the receive.
  [[nodiscard]] std::uint64_t wanted() const noexcept { return wanted_; }
  [[nodiscard]] bool is_broken() const noexcept { return broken_.has_value(); }
  // Makes it fail with `why`, unless it has failed already.
  void break_off(failure why) noexcept {
    if (!broken_) broken_.emplace(std::move(why));
  }
  // Ends it if nothing of it is in flight and no more bytes will arrive.
  void settle() noexcept;

  // For writes and parts: the position up to which bytes are requested next, at most `ahead` beyond
  // the bytes received; 0: not now.
  [[nodiscard]] std::uint64_t due(std::uint64_t ahead) const noexcept;
  void ask(std::uint64_t upto) noexcept { asked_ = upto; }
  // Returns false if these bytes were not requested.
  [[nodiscard]] bool take_part(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool take_written() noexcept;

  // For reads: plans which rail reads which bytes. leave_out() excludes a device for which the
  // receive's memory is not registered, as if the peer's were not.
  void leave_out(std::size_t device) noexcept { from_.part[0].rkeys[device] = 0; }
  void plan(const protocol::rail_split& how) noexcept;
  // Plans all bytes for the endpoint's own connection.
  void plan_one() noexcept {
    pieces_[0] = {.end = wanted_};
    piece_count_ = wanted_ != 0 ? 1 : 0;
  }
  [[nodiscard]] std::span<fetch_piece> pieces() noexcept {
    return std::span(pieces_).first(piece_count_);
  }
  // Calls `read(index)` for each piece, then settles.
  template <class Read>
  void read_all(Read read) noexcept {
    reading_ = true;
    for (std::uint8_t i = 0; i < piece_count_; ++i) read(i);
    reading_ = false;
    settle();
  }
  void post_read(fetch_piece& p, std::uint64_t bytes) noexcept {
    p.at += bytes;
    ++p.reads;
    ++reads_;
  }
  // The caller calls settle() next, once the entry is free.
  void read_done(const frame_entry& e, const transport::completion& c) noexcept;

 private:
  [[nodiscard]] bool all_here() const noexcept;

  peer_core* peer_ = nullptr;
  message_receive* op_ = nullptr;  // null: destroyed meanwhile
  protocol::offer from_;
  std::uint64_t tag_ = 0;
  Slice into_;
  MemoryRegion keeps_;  // set if the receive was destroyed
  std::uint64_t wanted_ = 0;
  std::uint64_t asked_ = 0;  // for writes and parts
  std::uint64_t got_ = 0;    // for writes and parts
  by way_ = by::reads;
  std::uint8_t piece_count_ = 0;
  std::array<fetch_piece, protocol::most_rails> pieces_;  // for reads
  std::uint32_t reads_ = 0;                               // in flight
  bool reading_ = false;                                  // in read_all(), which ends the fetch
  std::optional<failure> broken_;
};

}  // namespace cordma::detail
