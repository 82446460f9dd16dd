// Decides in which polls the epoll set is queried for all sockets, and in which polls no socket is
// read.
#pragma once

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/reactor.hpp>

#include <algorithm>
#include <cstddef>

namespace cordma::transport::tcp {

// How the reactor waits.
enum class looking : std::uint8_t {
  in_virtual_time,
  on_events,   // each sleep follows a query of all sockets
  only_polls,  // the reactor has not slept on the epoll set yet
  by_turns,    // polls and sleeps
};

// Bound to the adapter's thread.
class look_schedule {
 public:
  explicit look_schedule(reactor& home) noexcept : how_(how(home)) {}
  [[nodiscard]] bool on_events() const noexcept { return how_ == looking::on_events; }
  [[nodiscard]] bool only_polls() const noexcept { return how_ == looking::only_polls; }
  // The reactor sleeps after all; or it does not, because there was no memory for it.
  void sleeps() noexcept {
    CORDMA_ASSERT(only_polls());
    how_ = looking::by_turns;
  }
  void cannot_sleep() noexcept {
    CORDMA_ASSERT(how_ == looking::by_turns);
    how_ = looking::only_polls;
  }

  // While a handshake is open or a socket is full, every poll queries all sockets.
  [[nodiscard]] int waiting() const noexcept { return waiting_; }
  void add_waiting(int change) noexcept {
    waiting_ += change;
    CORDMA_ASSERT_OP(waiting_, >=, 0);
  }

  // True if this poll reads no socket: nothing arrived since the sockets were drained.
  [[nodiscard]] bool skips() noexcept {
    if (skip_ == 0) return false;
    --skip_;
    return true;
  }
  // `found`: the active connections had data; `others`: some connections are not active.
  [[nodiscard]] bool due(bool found, bool others) noexcept {
    if (waiting_ != 0 || found_elsewhere_) return true;
    // Two of the four ways to wait differ from the others here.
    if (how_ <= looking::on_events && (how_ == looking::in_virtual_time || !found)) [[unlikely]]
      return true;
    if (polls_to_look_ == 0) [[unlikely]] {
      count_polls(others);
      return true;
    }
    --polls_to_look_;
    return false;
  }
  void looked(bool found) noexcept { found_elsewhere_ = found; }
  void polled(bool found) noexcept {
    if (found && on_events()) skip_ = 1;
  }
  // The epoll set is level-triggered: present or arriving data makes it readable. The poll that
  // follows need not query it.
  void arm() noexcept {
    if (how_ != looking::in_virtual_time) skip_ = 1;
  }
  void disarm() noexcept {
    skip_ = 0;
    polls_to_look_ = std::min(polls_to_look_, 1U);
  }

 private:
  [[gnu::noinline]] void count_polls(bool others) noexcept {
    polls_to_look_ = on_events() ? polls_per_event_look
                     : others    ? polls_per_wide_look
                                 : polls_per_look;
  }
  static constexpr unsigned polls_per_look = 64;        // if all connections are active
  static constexpr unsigned polls_per_wide_look = 8;    // if some are not
  static constexpr unsigned polls_per_event_look = 16;  // event mode, if the active ones are busy
  [[nodiscard]] static looking how(reactor& home) noexcept {
    if (&home.time() != &real_clock()) return looking::in_virtual_time;
    switch (home.mode()) {
      case wait_mode::event: return looking::on_events;
      case wait_mode::polling: return looking::only_polls;
      case wait_mode::adaptive: break;
    }
    return looking::by_turns;
  }

  looking how_;
  int waiting_ = 0;
  unsigned polls_to_look_ = 0;
  unsigned skip_ = 0;
  bool found_elsewhere_ = false;  // the last query found data of a connection that is not active
};

}  // namespace cordma::transport::tcp
