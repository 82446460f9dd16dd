// Credits of one direction of a connection: a sender that never sends what its peer has no receive for.
// The receiver counts the receives that it gave, ever, the sender the messages; both counts are carried
// modulo 2^16, absolute, so that a word that is late or said twice does no harm. Pure; bound to one thread.
#pragma once

#include <cordma/runtime/check.hpp>

#include <cstdint>

namespace cordma::protocol {

// Receives on their way to be used, at most: far below 2^16, so that counts can be told apart.
inline constexpr std::uint16_t most_credits = 4096;
static_assert(most_credits < 1U << 15, "counts are compared modulo 65536");

class send_credits {
 public:
  // REQUIRES initial in [1, most_credits]; what the peer's hello said.
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
  // False: there is none.
  [[nodiscard]] bool try_to_take() noexcept {
    if (sent_ == given_) return false;
    ++sent_;
    return true;
  }
  // One that was taken, and then not used. REQUIRES that there is one.
  void put_back() noexcept {
    CORDMA_REQUIRE_OP(available(), <, window_);
    --sent_;
  }
  // What every frame of the peer says. False: more than it can have given, and nothing is changed.
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
  // An older count than the known one: its frame was overtaken.
  [[nodiscard]] bool is_late(std::uint16_t total) const noexcept {
    return static_cast<std::uint16_t>(given_ - total) <= most_credits;
  }

  std::uint16_t window_;
  std::uint16_t given_;
  std::uint16_t sent_ = 0;
};

class receive_window {
 public:
  // REQUIRES as send_credits, and that so many receives are there.
  explicit receive_window(std::uint16_t initial) noexcept
      : window_(initial),
        half_(static_cast<std::uint16_t>(initial > 1 ? initial / 2 : 1)),
        given_(initial),
        said_(initial) {
    CORDMA_REQUIRE_OP(initial, >=, 1);
    CORDMA_REQUIRE_OP(initial, <=, most_credits);
  }
  // A message has come. False: one more than there were receives for.
  [[nodiscard]] bool take() noexcept {
    if (taken_ == given_) return false;
    ++taken_;
    return true;
  }
  // A receive that a message took is there once more. True: that has to be said now, see has_to_say().
  bool give_back() noexcept {
    ++given_;
    return static_cast<std::uint16_t>(given_ - said_) >= half_ || taken_ == said_;
  }
  [[nodiscard]] std::uint16_t given() const noexcept { return given_; }
  // For the frame that goes out now.
  std::uint16_t say() noexcept { return said_ = given_; }
  // A frame that said it never went out.
  void unsay() noexcept { said_ = static_cast<std::uint16_t>(given_ - window_); }
  // Where no frame goes out by itself, one has to: half of them were given back in silence, or the peer has
  // used all that it knows of, while the others may be held until it can send. A busy one is not told for
  // every message.
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
