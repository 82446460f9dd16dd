// A long message of the peer, from its receive to the last byte.
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
class fetch : public list_node {
 public:
  enum class by : std::uint8_t {
    reads,   // of the peer's memory
    writes,  // by the peer, to where it belongs
    parts,   // frames of it
  };
  // A free one becomes that of `op`: as many bytes as fit.
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
  // The receive is destroyed: its memory stays until the end.
  void outlive(MemoryRegion into) noexcept {
    keeps_ = std::move(into);
    op_ = nullptr;
  }
  // It ends, and is free again. REQUIRES that nothing of it is in flight.
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
  // Bytes: what fits.
  [[nodiscard]] std::uint64_t wanted() const noexcept { return wanted_; }
  [[nodiscard]] bool is_broken() const noexcept { return broken_.has_value(); }
  // It fails with that, unless it has failed.
  void break_off(failure why) noexcept {
    if (!broken_) broken_.emplace(std::move(why));
  }
  // Ends it, where nothing of it is in flight and there is no more to come.
  void settle() noexcept;

  // Of what is written or sent: up to where it is asked for next, with so many bytes ahead; 0: not now.
  [[nodiscard]] std::uint64_t due(std::uint64_t ahead) const noexcept;
  void ask(std::uint64_t upto) noexcept { asked_ = upto; }
  // False: nobody asked for them.
  [[nodiscard]] bool take_part(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool take_written() noexcept;

  // Of what is read: who reads what. It is not registered for that device, as if it were not at the peer.
  void leave_out(std::size_t device) noexcept { from_.part[0].rkeys[device] = 0; }
  void plan(const protocol::rail_split& how) noexcept;
  // All of it by the connection itself.
  void plan_one() noexcept {
    pieces_[0] = {.end = wanted_};
    piece_count_ = wanted_ != 0 ? 1 : 0;
  }
  [[nodiscard]] std::span<fetch_piece> pieces() noexcept {
    return std::span(pieces_).first(piece_count_);
  }
  // `read(index)` for each piece; it settles behind the last.
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
  // settle() comes next, once the entry is free.
  void read_done(const frame_entry& e, const transport::completion& c) noexcept;

 private:
  [[nodiscard]] bool all_here() const noexcept;

  peer_core* peer_ = nullptr;
  message_receive* op_ = nullptr;  // null: destroyed meanwhile
  protocol::offer from_;
  std::uint64_t tag_ = 0;
  Slice into_;
  MemoryRegion keeps_;  // where the receive was destroyed
  std::uint64_t wanted_ = 0;
  std::uint64_t asked_ = 0;  // of what is written or sent
  std::uint64_t got_ = 0;    // likewise
  by way_ = by::reads;
  std::uint8_t piece_count_ = 0;
  std::array<fetch_piece, protocol::most_rails> pieces_;  // of what is read
  std::uint32_t reads_ = 0;                               // in flight
  bool reading_ = false;                                  // in read_all(): it finishes there
  std::optional<failure> broken_;
};

}  // namespace cordma::detail
