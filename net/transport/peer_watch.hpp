// The watch over a peer that owes something, of the transports without a device.
#pragma once

#include <cordma/net/transport/timer_of.hpp>
#include <cstdint>
#include <utility>

namespace cordma::transport {

// Counts the periods without a sign of life. `AtEnd` is called at the end of each. Bound to the adapter's thread.
template <auto AtEnd>
class peer_watch {
 public:
  explicit peer_watch(auto& owner) noexcept : timer_(owner) {}
  [[nodiscard]] bool runs() const noexcept { return timer_.pending(); }
  // `others`: a number that differs once the peer has done something that on_sign() is not called for.
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
  // Returns how many periods in a row were silent.
  [[nodiscard]] unsigned end_period(std::uint64_t others = 0) noexcept {
    const std::uint64_t before = std::exchange(seen_, others + signs_);
    return silent_periods_ = seen_ == before ? silent_periods_ + 1 : 0;
  }
  // The signs of this period so far do not count. REQUIRES that there are no others.
  void overlook() noexcept { seen_ = signs_; }

 private:
  timer_of<AtEnd> timer_;
  std::uint64_t signs_ = 0;
  std::uint64_t seen_ = 0;
  unsigned silent_periods_ = 0;
};

}  // namespace cordma::transport
