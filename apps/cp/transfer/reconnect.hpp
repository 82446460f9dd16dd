// When a client reconnects, and when it gives up. Without a clock or a network.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>

namespace copy {

// The work of a client at the time of a failure.
enum class stage : unsigned char { first_connect, transfer, reconnect };
// True if the network or the peer's process failed, so that a further connection may succeed. False
// for refusals by the peer, cancellation, disk errors, and every error of the first connection.
[[nodiscard]] bool is_transient(const cordma::failure& why, stage during) noexcept;

// Computes the pauses between attempts and the end of the attempts. Bound to one thread.
class reconnect_policy {
 public:
  static constexpr cordma::duration first_pause = std::chrono::milliseconds(100);
  static constexpr cordma::duration longest_pause = std::chrono::seconds(5);
  static constexpr cordma::duration shortest_attempt = std::chrono::seconds(2);

  // `longest`: time without progress before the client gives up; begins at the first failure after
  // progress.
  explicit reconnect_policy(cordma::duration longest) noexcept : longest_(longest) {}

  struct verdict {
    bool goes_on = false;
    // The first failure since the last progress.
    bool is_new = false;
    cordma::duration pause{};  // before the next attempt; 0 if `goes_on` is false
  };
  // Records that a connection, or an attempt to connect, failed at `now`. `progress` counts durable
  // bytes and entries at the target. REQUIRES: `progress` never decreases.
  [[nodiscard]] verdict failed(cordma::time_point now, std::uint64_t progress) noexcept;

  // Returns the time limit of an attempt that begins now: the remaining time, and at least
  // `shortest_attempt`.
  [[nodiscard]] cordma::duration time_to_connect(cordma::time_point now) const noexcept;
  // Attempts since the last interruption.
  [[nodiscard]] unsigned attempts() const noexcept { return attempts_; }

 private:
  cordma::duration longest_;
  cordma::time_point end_{};  // time limit of the attempts
  cordma::duration pause_{};
  std::uint64_t progress_ = 0;
  unsigned attempts_ = 0;
  bool is_interrupted_ = false;  // since the last progress
};

}  // namespace copy
