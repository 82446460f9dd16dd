// The receives of the peer: its credits, and the probe for a receive.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/tcp/hello.hpp>
#include <cordma/net/transport/timer_of.hpp>

#include <algorithm>

namespace cordma::transport::tcp {

// The messages that need a credit.
enum class credit_rule : std::uint8_t {
  each,
  none,  // its receives are shared
  next,  // as none, and the first unsent message found no receive
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
  // True if a message found no receive.
  [[nodiscard]] bool ran_out() const noexcept { return rule_ == credit_rule::next; }
  // Credits used by sent messages.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] bool has_unused() const noexcept { return granted_ != used_; }
  // True if a message may be sent after `used` ones.
  [[nodiscard]] bool allow(std::uint32_t used) const noexcept {
    return granted_ != used || rule_ == credit_rule::none;
  }
  // `credit`: the field of a frame. False, without a change, if the number is impossible.
  [[nodiscard]] bool grant(std::uint16_t credit) noexcept {
    const auto more = static_cast<std::uint16_t>(credit - static_cast<std::uint16_t>(granted_));
    if (more == 0) return true;
    // A peer without credits in advance may have granted fewer than were used: messages in flight
    // have yet to be counted.
    const auto unused = static_cast<std::int32_t>(granted_ - used_ + more);
    if (unused > static_cast<std::int32_t>(depth_)) return false;
    granted_ += more;
    return true;
  }
  void use() noexcept {
    ++used_;
    if (ran_out()) rule_.become(credit_rule::none);
  }
  // The first of `messages` sent messages found no receive, and all are sent again.
  void run_out(std::uint32_t messages) noexcept {
    used_ -= messages;
    rule_.become(credit_rule::next);
  }

 private:
  checked_state<credit_rule> rule_{credit_rule::each};
  std::uint32_t depth_ = 0;
  std::uint32_t granted_ = 0;  // receives posted by the peer so far
  std::uint32_t used_ = 0;
};

enum class probe_state : std::uint8_t { idle, asked, resting };
[[nodiscard]] constexpr bool operator>>(probe_state from, probe_state to) noexcept {
  return to == probe_state::idle ? from != to : from == probe_state::idle;
}

// Probes the peer for a receive if a message waits for one. `Rested` is called when it may probe
// again. Bound to the adapter's thread.
template <auto Rested>
class receiver_probe {
 public:
  explicit receiver_probe(auto& owner) noexcept : rest_(owner) {}
  [[nodiscard]] bool may_ask(std::uint8_t rnr_retry) const noexcept {
    return state_ == probe_state::idle && (rnr_retry < for_ever || for_life_);
  }
  // Called after a silence while a message waits: any answer shows that the peer is alive.
  void ask_for_life() noexcept { for_life_ = true; }
  void asked(std::uint32_t request) noexcept {
    state_.become(probe_state::asked);
    for_life_ = false;
    request_ = request;
  }
  [[nodiscard]] bool waits() const noexcept { return state_ == probe_state::asked; }
  void answered() noexcept { state_.become(probe_state::idle); }
  [[nodiscard]] std::uint32_t request() const noexcept { return request_; }
  // The answer is that there is none. False if the limit of refusals is exceeded.
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
  std::uint8_t refusals_ = 0;  // answers without credit to the first waiting request
  std::uint32_t request_ = 0;  // the request of the probe in flight
  timer_of<Rested> rest_;
};

}  // namespace cordma::transport::tcp
