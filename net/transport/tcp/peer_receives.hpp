// The receives of the peer: what it has promised, and the question whether there is one.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/tcp/hello.hpp>
#include <cordma/net/transport/timer_of.hpp>

#include <algorithm>

namespace cordma::transport::tcp {

// Which messages need a receive that the peer has promised.
enum class credit_rule : std::uint8_t {
  each,
  none,  // its receives are shared
  next,  // they are, and the first message that is not sent found none
};
[[nodiscard]] constexpr bool operator>>(credit_rule from, credit_rule to) noexcept {
  switch (to) {
    case credit_rule::each: return false;
    case credit_rule::none: return true;
    case credit_rule::next: return from == credit_rule::none;
  }
  return false;
}

// Bound to the adapter's thread.
class peer_receives {
 public:
  void begin(const hello& theirs) noexcept {
    depth_ = std::max(theirs.recv_depth, 1U);
    granted_ = theirs.credit;
    CORDMA_ASSERT_OP(granted_, <=, depth_);
    if (theirs.recv_depth == 0) rule_.become(credit_rule::none);
  }
  [[nodiscard]] bool are_shared() const noexcept { return rule_ != credit_rule::each; }
  // A message found none.
  [[nodiscard]] bool ran_out() const noexcept { return rule_ == credit_rule::next; }
  // Taken by messages that were sent.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] bool has_unused() const noexcept { return granted_ != used_; }
  // Whether a message may be sent behind `used` ones.
  [[nodiscard]] bool allow(std::uint32_t used) const noexcept {
    return granted_ != used || rule_ == credit_rule::none;
  }
  // `credit`: of a frame. False, and nothing is changed, where there cannot be so many.
  [[nodiscard]] bool grant(std::uint16_t credit) noexcept {
    const auto more = static_cast<std::uint16_t>(credit - static_cast<std::uint16_t>(granted_));
    if (more == 0) return true;
    // Of a peer that promises none, fewer than were used: those on their way have yet to be counted.
    const auto unused = static_cast<std::int32_t>(granted_ - used_ + more);
    if (unused > static_cast<std::int32_t>(depth_)) return false;
    granted_ += more;
    return true;
  }
  void use() noexcept {
    ++used_;
    if (ran_out()) rule_.become(credit_rule::none);
  }
  // The first of `messages` that were sent found no receive, and all are sent again.
  void run_out(std::uint32_t messages) noexcept {
    used_ -= messages;
    rule_.become(credit_rule::next);
  }

 private:
  checked_state<credit_rule> rule_{credit_rule::each};
  std::uint32_t depth_ = 0;
  std::uint32_t granted_ = 0;  // posted by the peer so far
  std::uint32_t used_ = 0;
};

enum class probe_state : std::uint8_t { idle, asked, resting };
[[nodiscard]] constexpr bool operator>>(probe_state from, probe_state to) noexcept {
  return to == probe_state::idle ? from != to : from == probe_state::idle;
}

// Asks the peer for a receive where a message waits for one. `Rested` is called once it may ask again. Bound to the
// adapter's thread.
template <auto Rested>
class receiver_probe {
 public:
  explicit receiver_probe(auto& owner) noexcept : rest_(owner) {}
  [[nodiscard]] bool may_ask(std::uint8_t rnr_retry) const noexcept {
    return state_ == probe_state::idle && (rnr_retry < for_ever || for_life_);
  }
  // Nothing was heard while a message waits: any answer shows that the peer is alive.
  void ask_for_life() noexcept { for_life_ = true; }
  void asked(std::uint32_t request) noexcept {
    state_.become(probe_state::asked);
    for_life_ = false;
    request_ = request;
  }
  [[nodiscard]] bool waits() const noexcept { return state_ == probe_state::asked; }
  void answered() noexcept { state_.become(probe_state::idle); }
  [[nodiscard]] std::uint32_t request() const noexcept { return request_; }
  // The answer is that there is none. False: no more of them are put up with.
  [[nodiscard]] bool refused(std::uint8_t rnr_retry) noexcept { return ++refusals_ <= rnr_retry; }
  void rest(reactor& home, duration time) noexcept {
    state_.become(probe_state::resting);
    home.add(rest_, after(home.now(), time));
  }
  void rested() noexcept { state_.become(probe_state::idle); }
  void stop(reactor& home) noexcept { home.remove(rest_); }
  // The next message has a receive.
  void message_left() noexcept { refusals_ = 0; }
  static constexpr std::uint8_t for_ever = 7;

 private:
  checked_state<probe_state> state_{probe_state::idle};
  bool for_life_ = false;
  std::uint8_t refusals_ = 0;  // answers without credit to the request that is first in line
  std::uint32_t request_ = 0;  // that the probe under way is about
  timer_of<Rested> rest_;
};

}  // namespace cordma::transport::tcp
