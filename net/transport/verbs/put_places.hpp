// The places of a send queue for messages that are put. Twice in a round of them one asks for its
// completion, which stands for those before it: others are put while that is awaited.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/limits.hpp>

#include <bit>

namespace cordma::transport::verbs {

// Of one queue pair. Bound to its adapter's thread.
class put_places {
 public:
  // REQUIRES a power of two.
  explicit put_places(std::uint32_t places) noexcept : places_(places) {
    CORDMA_REQUIRE(std::has_single_bit(places) && places >= 2);
  }
  // Messages of at most so many bytes, head included, can be put from now on; less than a head: none.
  void open(std::uint32_t longest) noexcept {
    limit_ = longest < sizeof(message_head)
                 ? 0
                 : longest - static_cast<std::uint32_t>(sizeof(message_head)) + 1;
  }
  void close() noexcept { limit_ = 0; }
  // Whether there is a place for one with so many bytes behind its head.
  [[nodiscard]] bool can_take(std::uint32_t bytes) const noexcept {
    return bytes < limit_ && posted_ - done_ < places_;
  }
  // The running number of the next one, and whether that asks for a completion.
  [[nodiscard]] std::uint32_t next() const noexcept { return posted_; }
  [[nodiscard]] bool next_completes() const noexcept {
    const std::uint32_t last = places_ / 2 - 1;
    return (posted_ & last) == last;
  }
  // REQUIRES can_take(). The next one is on the device.
  void take() noexcept {
    CORDMA_ASSERT_OP(posted_ - done_, <, places_);
    ++posted_;
  }
  // The one of this number was carried out, with all before it. False: none such is on the device.
  [[nodiscard]] bool done(std::uint32_t number) noexcept {
    const std::uint32_t ahead = (number - done_) & twenty_bits;
    if (ahead >= posted_ - done_) return false;
    done_ += ahead + 1;
    return true;
  }
  [[nodiscard]] bool idle() const noexcept { return posted_ == done_; }
  // A request that completes was posted behind all of them; and it has succeeded.
  void ask() noexcept { asked_ = posted_; }
  void answered() noexcept {
    if (asked_ - done_ <= posted_ - done_) done_ = asked_;
  }

 private:
  std::uint32_t places_;
  std::uint32_t limit_ = 0;  // more bytes than a head can have behind it; 0: nothing is put
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t asked_ = 0;  // posted_ when it was asked last
};

}  // namespace cordma::transport::verbs
