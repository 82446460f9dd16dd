// A queue pair's share in a queue of receives, of the transports whose queues report by themselves.
#pragma once

#include <cordma/net/transport/software_receive_queue.hpp>

namespace cordma::transport {

// Empty where the queue pair has receives of its own: it lends none then, and owes nothing. Bound to the adapter's thread.
class receive_share {
 public:
  receive_share(queue_pair& pair, receive_queue* of) noexcept
      : queue_(static_cast<reporting_receive_queue*>(of)), last_taken_(pair) {}
  explicit operator bool() const noexcept { return queue_ != nullptr; }
  // Of a receive; `own`: of those that are not shared.
  [[nodiscard]] std::uint32_t max_segments(std::uint32_t own) const noexcept {
    return queue_ != nullptr ? queue_->max_segments() : own;
  }
  void enter() noexcept {
    if (queue_ != nullptr) queue_->enter();
  }
  // Null: there is none, or others wait longer; `w` waits for its turn.
  [[nodiscard]] const recv_request* lend(receive_waiter& w) noexcept {
    return queue_ != nullptr ? queue_->lend(w) : nullptr;
  }
  [[nodiscard]] bool lends_to(const receive_waiter& w) noexcept {
    return queue_ != nullptr && queue_->lends_to(w);
  }
  void withdraw(receive_waiter& w) noexcept {
    if (queue_ != nullptr) queue_->withdraw(w);
  }
  // A receive that was lent.
  void finish(const completion& c) noexcept {
    queue_->finish(c);
    last_finished_ = queue_->finished();
  }
  // All that was finished here was handed out.
  [[nodiscard]] bool all_handed_out() const noexcept { return queue_->handed() >= last_finished_; }
  // That no receive is taken any more is still to be reported; and it is.
  [[nodiscard]] bool owes_last() const noexcept { return queue_ != nullptr && !last_taken_.told; }
  void end() noexcept { queue_->end(last_taken_); }
  // The queue pair goes. It has `lent` receives, and at most the one with this id, which comes back: nobody asks the
  // queue pair any more.
  template <class Pair>
  void leave(Pair& pair, std::uint32_t lent, std::uint64_t id) noexcept {
    withdraw(pair);
    CORDMA_ASSERT_OP(lent, <=, 1U);
    if (lent != 0)
      queue_->finish({.id = id, .status = wc_status::wr_flush_err, .op = opcode::recv});
    queue_->leave(pair);
  }

 private:
  reporting_receive_queue* queue_;
  last_taken last_taken_;
  std::uint64_t last_finished_ = 0;
};

}  // namespace cordma::transport
