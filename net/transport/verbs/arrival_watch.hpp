// Detects that the messages of a UC peer no longer arrive. UC has no acknowledgements, so both
// sides count, and send each other their counts now and then. Pure.
#pragma once

#include <cstdint>

namespace cordma::transport::verbs {

class arrival_watch {
 public:
  // Longer messages are not counted: of the counted ones, some arrive on any usable wire.
  static constexpr std::uint64_t most_packets = 16;
  static constexpr std::uint16_t enough = 64;      // messages between two looks
  static constexpr unsigned silence_in_a_row = 2;  // looks
  static_assert(enough > 0 && enough <= UINT16_MAX / 2, "counts travel modulo 2^16");

  // Called when this side sends a message that consumes a receive of the peer.
  void on_send(std::uint64_t bytes, std::uint32_t mtu) noexcept {
    if (bytes <= most_packets * mtu) ++sent_;
  }
  // The count to send: messages sent, modulo 2^16. `news`: it changed since the last to_tell().
  struct word_of_sent {
    std::uint16_t sent;
    bool news;
  };
  [[nodiscard]] word_of_sent to_tell() noexcept {
    const bool news = told_ != sent_;
    told_ = sent_;
    return {sent_, news};
  }

  void on_arrival() noexcept { ++arrived_; }
  void on_told(std::uint16_t sent) noexcept { theirs_ = sent; }
  // To be called now and then, when all received messages are counted. `receiving`: a receive is
  // posted. True once the peer has repeatedly sent `enough` messages and none arrived, although a
  // receive was posted all the time.
  [[nodiscard]] bool is_over(bool receiving) noexcept {
    const bool silent = receiving && receiving_ && arrived_ == arrived_before_;
    const auto sent_since = static_cast<std::uint16_t>(theirs_ - theirs_before_);
    if (silent && sent_since < enough) return false;  // too few to decide
    silence_ = silent ? silence_ + 1 : 0;
    theirs_before_ = theirs_;
    arrived_before_ = arrived_;
    receiving_ = receiving;
    return silence_ >= silence_in_a_row;
  }

 private:
  std::uint16_t sent_ = 0;
  std::uint16_t told_ = 0;
  std::uint16_t theirs_ = 0;
  std::uint32_t arrived_ = 0;
  // Values at the last look that counted.
  std::uint16_t theirs_before_ = 0;
  std::uint32_t arrived_before_ = 0;
  bool receiving_ = false;
  unsigned silence_ = 0;
};

}  // namespace cordma::transport::verbs
