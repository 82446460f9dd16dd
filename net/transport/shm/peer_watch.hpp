// The watch over a peer that owes something. Whatever the peer does shows: it takes messages, copies, serves, looks for
// a receive, sends messages, reads or writes our memory, or answers a question for a region.
#pragma once

#include <cordma/net/transport/shm/timer_of.hpp>
#include <cstdint>
#include <utility>

namespace cordma::transport::shm {

class shm_queue_pair;

// Counts the periods without a sign of life. Bound to the adapter's thread.
class peer_watch {
 public:
  peer_watch(shm_queue_pair& q, timer::function at_end) noexcept : timer_(q, at_end) {}
  [[nodiscard]] bool runs() const noexcept { return timer_.pending(); }
  // `signs`: a number that differs once the peer has done something.
  void start(reactor& home, duration period, std::uint64_t signs) noexcept {
    silent_periods_ = 0;
    seen_ = signs + packets_;
    go_on(home, period);
  }
  void go_on(reactor& home, duration period) noexcept {
    home.add(timer_, after(home.now(), period));
  }
  void stop(reactor& home) noexcept { home.remove(timer_); }
  // One came over the socket.
  void on_packet() noexcept { ++packets_; }
  // Returns how many periods in a row were silent.
  [[nodiscard]] unsigned end_period(std::uint64_t signs) noexcept {
    const std::uint64_t before = std::exchange(seen_, signs + packets_);
    return silent_periods_ = seen_ == before ? silent_periods_ + 1 : 0;
  }

 private:
  timer_of<shm_queue_pair> timer_;
  std::uint64_t packets_ = 0;
  std::uint64_t seen_ = 0;
  unsigned silent_periods_ = 0;
};

}  // namespace cordma::transport::shm
