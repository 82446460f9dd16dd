// Whether what a UC peer sends still arrives. Nobody acknowledges there, so both sides count, and tell each
// other now and then. Pure.
#pragma once

#include <cstdint>

namespace cordma::transport::verbs {

class arrival_watch {
 public:
  // Longer messages are not counted: of those that are, some arrive on any wire worth the name.
  static constexpr std::uint64_t most_packets = 16;
  static constexpr std::uint16_t enough = 64;      // messages between two looks
  static constexpr unsigned silence_in_a_row = 2;  // looks
  static_assert(enough > 0 && enough <= UINT16_MAX / 2, "counts travel modulo 2^16");

  // This side sends a message that takes a receive over there.
  void on_send(std::uint64_t bytes, std::uint32_t mtu) noexcept {
    if (bytes <= most_packets * mtu) ++sent_;
  }
  // What is to be told: messages sent, modulo 2^16. `news`: since it was asked for last.
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
  // To be asked now and then, when all that has come is counted. `receiving`: a receive is posted. True
  // once enough was sent, again and again, and none of it came though there was a receive all the time.
  [[nodiscard]] bool is_over(bool receiving) noexcept {
    const bool silent = receiving && receiving_ && arrived_ == arrived_before_;
    const auto sent_since = static_cast<std::uint16_t>(theirs_ - theirs_before_);
    if (silent && sent_since < enough) return false;  // too few to tell
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
  // As of the look that counted last.
  std::uint16_t theirs_before_ = 0;
  std::uint32_t arrived_before_ = 0;
  bool receiving_ = false;
  unsigned silence_ = 0;
};

}  // namespace cordma::transport::verbs
