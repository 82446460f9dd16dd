// The watch over a peer that is silent.
#pragma once

#include <cordma/net/transport/tcp/timer_of.hpp>

#include <cstdint>

namespace cordma::transport::tcp {

class connection;

// Counts the periods in which nothing was transferred. Bound to the adapter's thread.
class peer_watch {
 public:
  peer_watch(connection& c, timer::function at_end) noexcept : timer_(c, at_end) {}
  [[nodiscard]] bool runs() const noexcept { return timer_.pending(); }
  void start(reactor& home, duration period) noexcept {
    silent_periods_ = 0;
    seen_ = transfers_;
    go_on(home, period);
  }
  void go_on(reactor& home, duration period) noexcept {
    home.add(timer_, after(home.now(), period));
  }
  void stop(reactor& home) noexcept { home.remove(timer_); }
  // In either direction.
  void transferred() noexcept { ++transfers_; }
  // A period is over: how many in a row were silent.
  [[nodiscard]] unsigned end_period() noexcept {
    silent_periods_ = transfers_ == seen_ ? silent_periods_ + 1 : 0;
    seen_ = transfers_;
    return silent_periods_;
  }
  // What was transferred in this period so far does not count.
  void overlook() noexcept { seen_ = transfers_; }

 private:
  timer_of<connection> timer_;
  std::uint64_t transfers_ = 0;
  std::uint64_t seen_ = 0;
  unsigned silent_periods_ = 0;
};

}  // namespace cordma::transport::tcp
