// The requests of the peer that were carried out, and those it was notified of: the ack and the
// credit of frames.
#pragma once

#include <cordma/net/transport/tcp/queues.hpp>

namespace cordma::transport::tcp {

// Bound to the adapter's thread.
class acknowledgements {
 public:
  // Number of requests of the peer carried out.
  [[nodiscard]] std::uint32_t executed() const noexcept { return executed_; }
  void carried_out(std::uint32_t bytes) noexcept {
    ++executed_;
    bytes_ += bytes;
  }
  // The peer waits for its acknowledgement: no other frame will carry it.
  void hurry() noexcept { prompt_ = true; }
  // Called when a header with both counters is sent.
  void told(std::uint32_t receives) noexcept {
    told_ = executed_;
    told_receives_ = receives;
    bytes_ = 0;
    prompt_ = false;
  }
  [[nodiscard]] bool due() const noexcept { return executed_ != told_; }
  [[nodiscard]] bool credit_due(const recv_queue& receives) const noexcept {
    const std::uint32_t untold = receives.posted() - told_receives_;
    const std::uint32_t known = told_receives_ - receives.done();
    // With two receives posted and one of them known, the peer is not held up: in a ping-pong the
    // next message carries the counters, and a separate frame would double the system calls.
    return untold != 0 && known <= (receives.posted() - receives.done() - 1) / 2;
  }
  void input_came() noexcept { idle_polls_ = 0; }
  // Called in a poll without input if a counter is due: true if it can wait for another poll.
  [[nodiscard]] bool can_wait(const recv_queue& receives, bool credit) noexcept {
    const bool starving = told_receives_ == receives.done();
    const bool many = executed_ - told_ >= most_requests || bytes_ >= most_bytes;
    const std::uint32_t polls = prompt_ || (credit && starving) ? patience_prompt : patience;
    return ++idle_polls_ <= polls && !many;
  }

 private:
  static constexpr std::uint32_t most_requests = 32;  // acknowledged at once beyond this number
  // acknowledged at once beyond this number of bytes
  static constexpr std::uint32_t most_bytes = 512U << 10;
  static constexpr std::uint32_t patience = 4;  // idle polls until it is acknowledged
  // as `patience`, if no other frame will carry it
  static constexpr std::uint32_t patience_prompt = 1;

  std::uint32_t executed_ = 0;
  std::uint32_t told_ = 0;
  std::uint32_t told_receives_ = 0;
  std::uint32_t bytes_ = 0;  // total of unacknowledged requests
  std::uint32_t idle_polls_ = 0;
  bool prompt_ = false;
};

}  // namespace cordma::transport::tcp
