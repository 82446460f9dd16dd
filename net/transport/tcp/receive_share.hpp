// A connection's share in a queue of receives.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/software_receive_queue.hpp>

namespace cordma::transport::tcp {

// Of a message that was put and finds no receive: it waits in the input.
enum class receive_turn : std::uint8_t { none, awaited, came };
[[nodiscard]] constexpr bool operator>>(receive_turn from, receive_turn to) noexcept {
  return to == receive_turn::awaited ? from == receive_turn::none
         : to == receive_turn::came  ? from != receive_turn::none
                                     : true;
}

// Empty where a connection has receives of its own: then only what is const is called. Bound to the adapter's thread.
class receive_share {
 public:
  receive_share(queue_pair& pair, receive_queue* of) noexcept
      : queue_(static_cast<reporting_receive_queue*>(of)), last_taken_(pair) {}
  explicit operator bool() const noexcept { return queue_ != nullptr; }
  [[nodiscard]] receive_turn turn() const noexcept { return turn_; }
  void become(receive_turn next) noexcept { turn_.become(next); }
  [[nodiscard]] std::uint32_t max_segments() const noexcept { return queue_->max_segments(); }
  // Null: `w` waits for its turn.
  [[nodiscard]] const recv_request* lend(receive_waiter& w) noexcept { return queue_->lend(w); }
  void withdraw(receive_waiter& w) noexcept { queue_->withdraw(w); }
  // A receive that was lent.
  void finish(const completion& c) noexcept {
    queue_->finish(c);
    last_finished_ = queue_->finished();
  }
  // All that was finished here was handed out.
  [[nodiscard]] bool all_handed_out() const noexcept { return queue_->handed() >= last_finished_; }
  // No receive is taken any more: it is reported.
  void end() noexcept { queue_->end(last_taken_); }
  void enter() noexcept { queue_->enter(); }
  void leave(const queue_pair& pair) noexcept { queue_->leave(pair); }

 private:
  reporting_receive_queue* queue_;
  last_taken last_taken_;
  checked_state<receive_turn> turn_{receive_turn::none};
  std::uint64_t last_finished_ = 0;
};

}  // namespace cordma::transport::tcp
