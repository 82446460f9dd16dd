// Credits of one direction of a connection: a sender never sends a message without a receive at its
// peer. The receiver counts all receives that it has granted, the sender all messages; both counts
// are transferred modulo 2^16 as absolute values, so that a late or repeated notification does no
// harm. Pure; bound to one thread.
#pragma once

#include <cordma/runtime/check.hpp>

#include <cstdint>

namespace cordma::protocol {

// Limit of granted and unused receives: far below 2^16, so that counts can be compared.
inline constexpr std::uint16_t most_credits = 4096;
static_assert(most_credits < 1U << 15, "counts are compared modulo 65536");

class send_credits {
 public:
  // REQUIRES initial in [1, most_credits], as in the peer's hello.
  explicit send_credits(std::uint16_t initial) noexcept : window_(initial), given_(initial) {
    CORDMA_REQUIRE_OP(initial, >=, 1);
    CORDMA_REQUIRE_OP(initial, <=, most_credits);
  }
  [[nodiscard]] std::uint16_t available() const noexcept {
    return static_cast<std::uint16_t>(given_ - sent_);
  }
  // REQUIRES available() != 0.
  void take() noexcept {
    CORDMA_REQUIRE_OP(available(), !=, 0);
    ++sent_;
  }
  // False if no credit is left.
  [[nodiscard]] bool try_to_take() noexcept {
    if (sent_ == given_) return false;
    ++sent_;
    return true;
  }
  // Returns a credit that was taken and not used. REQUIRES one.
  void put_back() noexcept {
    CORDMA_REQUIRE_OP(available(), <, window_);
    --sent_;
  }
  // The count in every frame of the peer. False, without a change, if the peer cannot have granted
  // that many.
  [[nodiscard]] bool on_given(std::uint16_t total) noexcept {
    const auto then = static_cast<std::uint16_t>(total - sent_);
    if (then > window_) [[unlikely]]
      return is_late(total);
    if (then < available()) [[unlikely]]
      return is_late(total);
    given_ = total;
    return true;
  }

 private:
  // True if the count is older than the known one: its frame was overtaken.
  [[nodiscard]] bool is_late(std::uint16_t total) const noexcept {
    return static_cast<std::uint16_t>(given_ - total) <= most_credits;
  }

  std::uint16_t window_;
  std::uint16_t given_;
  std::uint16_t sent_ = 0;
};

class receive_window {
 public:
  // REQUIRES as send_credits, and that this number of receives is posted.
  explicit receive_window(std::uint16_t initial) noexcept
      : window_(initial),
        half_(static_cast<std::uint16_t>(initial > 1 ? initial / 2 : 1)),
        given_(initial),
        said_(initial) {
    CORDMA_REQUIRE_OP(initial, >=, 1);
    CORDMA_REQUIRE_OP(initial, <=, most_credits);
  }
  // Counts an arrived message. False if it exceeds the receives.
  [[nodiscard]] bool take() noexcept {
    if (taken_ == given_) return false;
    ++taken_;
    return true;
  }
  // Counts a receive that was consumed by a message and is posted again. True if the peer must be
  // notified now, see has_to_say().
  bool give_back() noexcept {
    ++given_;
    return static_cast<std::uint16_t>(given_ - said_) >= half_ || taken_ == said_;
  }
  [[nodiscard]] std::uint16_t given() const noexcept { return given_; }
  // The count for the frame that is sent now.
  std::uint16_t say() noexcept { return said_ = given_; }
  // Called if the frame with the count was never sent.
  void unsay() noexcept { said_ = static_cast<std::uint16_t>(given_ - window_); }
  // True if a frame must be sent for the count alone: half of the receives were granted without a
  // notification, or the peer has used all that it knows of, while the others may be held until it
  // can send. A busy peer is not notified for every message.
  [[nodiscard]] bool has_to_say() const noexcept {
    const auto unsaid = static_cast<std::uint16_t>(given_ - said_);
    return unsaid >= half_ || (taken_ == said_ && unsaid != 0);
  }

 private:
  std::uint16_t window_;
  std::uint16_t half_;
  std::uint16_t given_;
  std::uint16_t said_;
  std::uint16_t taken_ = 0;
};

}  // namespace cordma::protocol
