// When a client connects again after its connection has failed, and when it gives up. No clock, no network.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>

namespace copy {

// What a client was doing when it failed.
enum class stage : unsigned char { first_connect, transfer, reconnect };
// Whether a further connection may do better: where the network or the peer's process failed. What the peer, the user or
// a disk has decided stays as it is, and so does what the first connection failed with.
[[nodiscard]] bool is_transient(const cordma::failure& why, stage during) noexcept;

// Bound to one thread.
class reconnect_policy {
 public:
  static constexpr cordma::duration first_pause = std::chrono::milliseconds(100);
  static constexpr cordma::duration longest_pause = std::chrono::seconds(5);
  static constexpr cordma::duration shortest_attempt = std::chrono::seconds(2);

  // `longest` without progress, from the first failure after it on.
  explicit reconnect_policy(cordma::duration longest) noexcept : longest_(longest) {}

  struct verdict {
    bool goes_on = false;
    // It is an interruption of its own: nothing has failed since there was progress.
    bool is_new = false;
    cordma::duration pause{};  // before the next attempt; 0 where it does not go on
  };
  // A connection, or an attempt to make one, has failed at `now`. `progress` never falls, and grows with what is at the
  // target for good.
  [[nodiscard]] verdict failed(cordma::time_point now, std::uint64_t progress) noexcept;

  // How long the attempt that begins now may take: what is left, and a little where that is little.
  [[nodiscard]] cordma::duration time_to_connect(cordma::time_point now) const noexcept;
  // Attempts since the last interruption.
  [[nodiscard]] unsigned attempts() const noexcept { return attempts_; }

 private:
  cordma::duration longest_;
  cordma::time_point end_{};  // of the attempts
  cordma::duration pause_{};
  std::uint64_t progress_ = 0;
  unsigned attempts_ = 0;
  bool is_interrupted_ = false;  // since there was progress
};

}  // namespace copy
