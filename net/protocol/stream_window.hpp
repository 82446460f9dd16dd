// Flow control of one direction of a stream. The window counts bytes of free space at the reader;
// notices are the receives that notify the reader of data. Counts are absolute: a repeated or late
// one does no harm. Pure; bound to one thread.
#pragma once

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstdint>

namespace cordma::protocol {

// Notices reserved for notifications of the window: whatever else is sent, both sides can always
// send these.
inline constexpr std::uint32_t kept_notices = 4;
inline constexpr std::uint32_t least_notices = 4 * kept_notices;

class stream_sender {
 public:
  // REQUIRES a window of at least 1 and at least least_notices: the reader's initial values.
  stream_sender(std::uint64_t window, std::uint32_t notices) noexcept
      : window_(window), notices_(notices), given_(notices) {
    CORDMA_REQUIRE_OP(window, >=, 1U);
    CORDMA_REQUIRE_OP(notices, >=, least_notices);
  }
  // Number of bytes that may be sent now.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return has_notice() ? window_ - (sent_ - consumed_) : 0;
  }
  // True if a notice is free for data, or for any notification except of the window.
  [[nodiscard]] bool has_notice() const noexcept { return free_notices() > kept_notices; }
  // True if a notification of the window may be sent.
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
  // `consumed` bytes and `given` notices: the reader's totals. False if they are impossible.
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
  // Bytes that arrived and are not consumed.
  [[nodiscard]] std::uint64_t available() const noexcept { return arrived_ - consumed_; }
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] std::uint64_t given() const noexcept { return given_; }
  // False if the bytes exceed the window.
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
  // A notice was consumed, and its receive is posted again.
  void give_back() noexcept { ++given_; }
  // True if half of the window was consumed, or half of the notices granted, without a
  // notification.
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
