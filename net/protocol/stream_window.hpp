// Flow control of one direction of a stream: bytes that its reader has room for, and notices, the receives that
// tell the reader of them. Counts are absolute: one that is said twice, or late, does no harm. Pure; bound to
// one thread.
#pragma once

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstdint>

namespace cordma::protocol {

// Notices that are kept for words on the window itself: whatever else goes out, both sides can always say those.
inline constexpr std::uint32_t kept_notices = 4;
inline constexpr std::uint32_t least_notices = 4 * kept_notices;

class stream_sender {
 public:
  // REQUIRES a window of at least 1 and at least least_notices: what the reader said at first.
  stream_sender(std::uint64_t window, std::uint32_t notices) noexcept
      : window_(window), notices_(notices), given_(notices) {
    CORDMA_REQUIRE_OP(window, >=, 1U);
    CORDMA_REQUIRE_OP(notices, >=, least_notices);
  }
  // Bytes that may be sent now.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return has_notice() ? window_ - (sent_ - consumed_) : 0;
  }
  // Whether there is a notice for data, or a word on anything but the window.
  [[nodiscard]] bool has_notice() const noexcept { return free_notices() > kept_notices; }
  // Whether a word on the window may go out.
  [[nodiscard]] bool may_speak() const noexcept { return free_notices() != 0; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  // REQUIRES bytes in [1, room()].
  void send(std::uint64_t bytes) noexcept {
    CORDMA_REQUIRE_OP(bytes, >=, 1U);
    CORDMA_REQUIRE_OP(bytes, <=, room());
    sent_ += bytes;
    ++used_;
  }
  // REQUIRES may_speak().
  void speak() noexcept {
    CORDMA_REQUIRE(may_speak());
    ++used_;
  }
  // The reader has consumed so many bytes and given so many notices, ever. False: that cannot be.
  [[nodiscard]] bool on_told(std::uint64_t consumed, std::uint64_t given) noexcept {
    if (consumed > sent_ || given > used_ + notices_) return false;
    consumed_ = std::max(consumed_, consumed);
    given_ = std::max(given_, given);
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t free_notices() const noexcept { return given_ - used_; }
  std::uint64_t window_;
  std::uint32_t notices_;
  std::uint64_t sent_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t given_;
};

class stream_reader {
 public:
  stream_reader(std::uint64_t window, std::uint32_t notices) noexcept
      : window_(window), notices_(notices), given_(notices), told_given_(notices) {
    CORDMA_REQUIRE_OP(window, >=, 1U);
    CORDMA_REQUIRE_OP(notices, >=, least_notices);
  }
  // Bytes that are here and not consumed.
  [[nodiscard]] std::uint64_t available() const noexcept { return arrived_ - consumed_; }
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] std::uint64_t given() const noexcept { return given_; }
  // False: more than there was room for.
  [[nodiscard]] bool on_arrived(std::uint64_t bytes) noexcept {
    if (bytes == 0 || bytes > window_ - available()) return false;
    arrived_ += bytes;
    return true;
  }
  // REQUIRES bytes <= available().
  void consume(std::uint64_t bytes) noexcept {
    CORDMA_REQUIRE_OP(bytes, <=, available());
    consumed_ += bytes;
  }
  // A notice was taken, and its receive is there once more.
  void give_back() noexcept { ++given_; }
  // Half of the window was consumed in silence, or half of the notices given.
  [[nodiscard]] bool has_to_tell() const noexcept {
    return consumed_ - told_consumed_ >= (window_ + 1) / 2 || given_ - told_given_ >= notices_ / 2;
  }
  void told() noexcept {
    told_consumed_ = consumed_;
    told_given_ = given_;
  }

 private:
  std::uint64_t window_;
  std::uint32_t notices_;
  std::uint64_t arrived_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t given_;
  std::uint64_t told_consumed_ = 0;
  std::uint64_t told_given_;
};

}  // namespace cordma::protocol
