// Rendezvous messages of this side, from their offer to the answer.
#pragma once

#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cordma::detail {

// A message that was announced to the peer, until the peer has answered and nothing of it is in
// flight.
class open_offer : public list_node {
 public:
  // Opens a free offer for `op`, of `total` bytes.
  void open(std::uint32_t number, message_send& op, std::uint64_t total) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return at_ != stage::free; }
  [[nodiscard]] bool awaits_answer() const noexcept { return at_ == stage::announced; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  void move_to(message_send& op) noexcept { op_ = &op; }
  // The message with these slices is destroyed: their memory is kept until the end.
  void outlive(std::span<const Slice> slices) noexcept;

  // The peer cannot read the slices: they are sent as the peer requests them.
  void send(std::span<const Slice> slices) noexcept;
  [[nodiscard]] bool is_sent() const noexcept { return sends_ != 0; }
  // Returns false if the request is invalid.
  [[nodiscard]] bool want(const protocol::want& more) noexcept;
  [[nodiscard]] const protocol::want& wanted() const noexcept { return wanted_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] bool is_up_to_date() const noexcept { return sent_ == wanted_.bytes; }
  // Takes the next requested bytes, at most `most`: a piece that is in flight until piece_done().
  [[nodiscard]] std::size_t take(std::uint64_t most, std::span<Slice> out) noexcept;
  void piece_done() noexcept {
    CORDMA_ASSERT_OP(in_flight_, >, 0U);
    --in_flight_;
  }

  void answer(protocol::offer_outcome outcome) noexcept;
  // The connection has ended.
  void cut() noexcept;
  [[nodiscard]] bool is_answered() const noexcept { return at_ == stage::answered; }
  [[nodiscard]] protocol::offer_outcome outcome() const noexcept { return outcome_; }
  [[nodiscard]] bool is_over() const noexcept { return in_flight_ == 0 && at_ > stage::announced; }
  // Frees the offer; its memory is not accessed any more. Returns null if the message was
  // destroyed. REQUIRES is_over().
  [[nodiscard]] message_send* end() noexcept;

 private:
  enum class stage : std::uint8_t { free, announced, answered, cut };

  message_send* op_ = nullptr;  // null: destroyed meanwhile
  std::uint32_t number_ = 0;
  std::uint32_t in_flight_ = 0;  // requests that read its memory
  stage at_ = stage::free;
  protocol::offer_outcome outcome_ = protocol::offer_outcome::failed;
  std::uint8_t pinned_ = 0;
  std::uint16_t sends_ = 0;  // number of slices
  std::uint16_t slice_ = 0;  // the slice that contains the position `sent_`
  std::uint64_t in_slice_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t sent_ = 0;
  protocol::want wanted_;
  std::array<Slice, most_message_slices> slices_;
  std::array<region_core*, most_message_slices> pins_{};
};

// The offers of one connection.
class offer_table {
 public:
  // Null: no memory.
  [[nodiscard]] open_offer* open(message_send& op, std::uint64_t total) noexcept;
  // Null if no offer of that number awaits an answer.
  [[nodiscard]] open_offer* find(std::uint32_t number) noexcept;
  [[nodiscard]] static std::uint32_t place_of(const open_offer& o) noexcept {
    return o.number() & place_mask;
  }
  [[nodiscard]] open_offer& at(std::uint32_t place) noexcept { return *all_[place]; }
  // Called when one of them has ended.
  void close() noexcept {
    CORDMA_ASSERT_OP(open_, >, 0U);
    --open_;
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return open_; }
  template <class Visit>
  void for_each_open(Visit visit) noexcept {
    for (const std::unique_ptr<open_offer>& o : all_) {
      if (o->is_open()) visit(*o);
    }
  }
  // Offers with requested bytes that are not sent yet.
  [[nodiscard]] list<open_offer>& wanted() noexcept { return wanted_; }

 private:
  static constexpr unsigned place_bits = 10;  // of an offer's number; the other bits count
  static constexpr std::uint32_t place_mask = (1U << place_bits) - 1;
  static_assert(protocol::most_offers <= place_mask + 1);

  std::vector<std::unique_ptr<open_offer>> all_;
  list<open_offer> wanted_;
  std::uint32_t open_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace cordma::detail
