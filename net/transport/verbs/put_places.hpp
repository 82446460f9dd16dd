// The send queue entries for messages of put(). Two entries per round request a completion, which
// also covers the entries before; other messages are posted meanwhile.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/limits.hpp>

#include <bit>

namespace cordma::transport::verbs {

// One per queue pair. Bound to the adapter's thread.
class put_places {
 public:
  // REQUIRES a power of two.
  explicit put_places(std::uint32_t places) noexcept : places_(places) {
    CORDMA_REQUIRE(std::has_single_bit(places) && places >= 2);
  }
  // Allows messages of at most this number of bytes, including the head; less than a head: none.
  void open(std::uint32_t longest) noexcept {
    limit_ = longest < sizeof(message_head)
                 ? 0
                 : longest - static_cast<std::uint32_t>(sizeof(message_head)) + 1;
  }
  void close() noexcept { limit_ = 0; }
  // True if there is an entry for a message with this number of bytes after its head.
  [[nodiscard]] bool can_take(std::uint32_t bytes) const noexcept {
    return bytes < limit_ && posted_ - done_ < places_;
  }
  // Running number of the next message, and whether it requests a completion.
  [[nodiscard]] std::uint32_t next() const noexcept { return posted_; }
  [[nodiscard]] bool next_completes() const noexcept {
    const std::uint32_t last = places_ / 2 - 1;
    return (posted_ & last) == last;
  }
  // REQUIRES can_take(). Records that the next message is on the device.
  void take() noexcept {
    CORDMA_ASSERT_OP(posted_ - done_, <, places_);
    ++posted_;
  }
  // Records that the message with this number, and all before it, are complete. False: no such
  // message is on the device.
  [[nodiscard]] bool done(std::uint32_t number) noexcept {
    const std::uint32_t ahead = (number - done_) & twenty_bits;
    if (ahead >= posted_ - done_) return false;
    done_ += ahead + 1;
    return true;
  }
  [[nodiscard]] bool idle() const noexcept { return posted_ == done_; }
  // ask(): a request with a completion was posted after all of them. answered(): it succeeded.
  void ask() noexcept { asked_ = posted_; }
  void answered() noexcept {
    if (asked_ - done_ <= posted_ - done_) done_ = asked_;
  }

 private:
  std::uint32_t places_;
  std::uint32_t limit_ = 0;  // bytes after a head must be fewer; 0: put() is disabled
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t asked_ = 0;  // posted_ at the last ask()
};

}  // namespace cordma::transport::verbs
