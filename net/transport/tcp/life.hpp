// The state of a connection, and the cause of its end.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <utility>

namespace cordma::transport::tcp {

enum class life_phase : std::uint8_t {
  idle,       // created, to be connected out of band
  expecting,  // the peer will connect
  connecting,
  greeting,
  open,
  closing,       // disconnect() was called: goodbye follows the posted requests
  goodbye_sent,  // still serving the peer, until it sends goodbye as well
  finishing,     // one last frame has to be sent, then the queue pair is in error
  draining,      // in error; the peer has yet to receive it
  dead,          // in error, no socket
};
// True if the second state may follow the first.
[[nodiscard]] constexpr bool operator>>(life_phase from, life_phase to) noexcept {
  using enum life_phase;
  switch (to) {
    case idle: return false;
    case expecting: return from == idle;
    case connecting:
      return from == idle || from == greeting;  // from greeting: once more, with a new socket
    case greeting: return from == connecting;
    case open: return from == idle || from == expecting || from == greeting;
    case closing: return from == open;
    case goodbye_sent: return from == closing;
    case finishing: return from == open || from == closing || from == goodbye_sent;
    case draining: return from == finishing;
    case dead: return true;
  }
  return false;
}

// Bound to the adapter's thread.
class connection_life {
 public:
  operator life_phase() const noexcept { return phase_; }  // NOLINT
  // Also true after a connection has ended.
  [[nodiscard]] bool was_open() const noexcept { return was_open_; }
  // Frames go in both directions.
  [[nodiscard]] bool carries() const noexcept {
    return phase_ == life_phase::open || phase_ == life_phase::closing ||
           phase_ == life_phase::goodbye_sent;
  }
  [[nodiscard]] bool sends() const noexcept { return carries() || phase_ == life_phase::finishing; }
  // The queue pair is in error.
  [[nodiscard]] bool failed() const noexcept {
    return phase_ == life_phase::draining || phase_ == life_phase::dead;
  }
  void become(life_phase next) noexcept {
    phase_.become(next);
    was_open_ = was_open_ || next == life_phase::open;
  }
  // Ends the connection for this reason once the last frame was sent.
  void finish(failure why) noexcept {
    cause_ = std::move(why);
    if (phase_ != life_phase::finishing) become(life_phase::finishing);
  }
  [[nodiscard]] failure take_cause() noexcept { return std::move(cause_); }
  // Flushed completions wait for the poll after this one; 0: outside of polls.
  void fail_in(std::uint64_t poll) noexcept { failed_in_poll_ = poll != 0 ? poll : UINT64_MAX; }
  [[nodiscard]] bool failed_in(std::uint64_t poll) const noexcept {
    return failed() && failed_in_poll_ == poll;
  }

 private:
  checked_state<life_phase> phase_{life_phase::idle};
  bool was_open_ = false;
  std::uint64_t failed_in_poll_ = 0;
  failure cause_{errc::ok};
};

}  // namespace cordma::transport::tcp
