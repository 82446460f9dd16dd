// Monitors a peer that owes something, for the transports without a device.
#pragma once

#include <cordma/net/transport/timer_of.hpp>
#include <cstdint>
#include <utility>

namespace cordma::transport {

// Counts the periods without a sign of life. Calls `AtEnd` at the end of each. Bound to the
// adapter's thread.
template <auto AtEnd>
class peer_watch {
 public:
  explicit peer_watch(auto& owner) noexcept : timer_(owner) {}
  [[nodiscard]] bool runs() const noexcept { return timer_.pending(); }
  // `others`: a number that changes when the peer does something for which on_sign() is not called.
  void start(reactor& home, duration period, std::uint64_t others = 0) noexcept {
    silent_periods_ = 0;
    seen_ = others + signs_;
    go_on(home, period);
  }
  void go_on(reactor& home, duration period) noexcept {
    home.add(timer_, after(home.now(), period));
  }
  void stop(reactor& home) noexcept { home.remove(timer_); }
  void on_sign() noexcept { ++signs_; }
  // Returns the number of consecutive silent periods.
  [[nodiscard]] unsigned end_period(std::uint64_t others = 0) noexcept {
    const std::uint64_t before = std::exchange(seen_, others + signs_);
    return silent_periods_ = seen_ == before ? silent_periods_ + 1 : 0;
  }
  // Ignores the signs of this period so far. REQUIRES that `others` is not used.
  void overlook() noexcept { seen_ = signs_; }

 private:
  timer_of<AtEnd> timer_;
  std::uint64_t signs_ = 0;
  std::uint64_t seen_ = 0;
  unsigned silent_periods_ = 0;
};

}  // namespace cordma::transport
