// The link of a queue pair to a queue of shared receives, for transports in which the
// queues report completions.
#pragma once

#include <cordma/net/transport/software_receive_queue.hpp>

namespace cordma::transport {

// Empty if the queue pair does not share receives: then it lends none and owes nothing. Bound to
// the adapter's thread.
class receive_share {
 public:
  receive_share(queue_pair& pair, receive_queue* of) noexcept
      : queue_(static_cast<reporting_receive_queue*>(of)), last_taken_(pair) {}
  explicit operator bool() const noexcept { return queue_ != nullptr; }
  // The most segments of a receive; `own` is the limit of receives that are not shared.
  [[nodiscard]] std::uint32_t max_segments(std::uint32_t own) const noexcept {
    return queue_ != nullptr ? queue_->max_segments() : own;
  }
  void enter() noexcept {
    if (queue_ != nullptr) queue_->enter();
  }
  // Null: no receive is left, or other queue pairs have waited longer; `w` then waits for its turn.
  [[nodiscard]] const recv_request* lend(receive_waiter& w) noexcept {
    return queue_ != nullptr ? queue_->lend(w) : nullptr;
  }
  [[nodiscard]] bool lends_to(const receive_waiter& w) noexcept {
    return queue_ != nullptr && queue_->lends_to(w);
  }
  void withdraw(receive_waiter& w) noexcept {
    if (queue_ != nullptr) queue_->withdraw(w);
  }
  // Completes a receive that was lent.
  void finish(const completion& c) noexcept {
    queue_->finish(c);
    last_finished_ = queue_->finished();
  }
  // True if all receives finished by this queue pair were returned to the caller.
  [[nodiscard]] bool all_handed_out() const noexcept { return queue_->handed() >= last_finished_; }
  // True if `last_receive` is still to be reported.
  [[nodiscard]] bool owes_last() const noexcept { return queue_ != nullptr && !last_taken_.told; }
  void end() noexcept { queue_->end(last_taken_); }
  // Called when the queue pair is destroyed. `lent` is its number of borrowed receives, at most 1;
  // `id` is the id of that receive, which completes as flushed.
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
