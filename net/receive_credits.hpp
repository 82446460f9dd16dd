// receive_credits: makes a sender wait until its peer has posted a receive, so that no send is
// refused.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/task.hpp>

namespace cordma {

struct receive_credit_options {
  // Interval between two reads of the peer's count while it has no receive for this side.
  duration look_again = std::chrono::microseconds(50);
};

// Optional flow control for one direction of a connection. The receiving side publishes the number
// of receives it posted (Endpoint::publish_receives, in memory with access::remote_read; it passes
// the blob of this memory to the sender by any means). The sender takes a credit for each message,
// with immediate or without, and each write with immediate. No message then arrives before its
// receive, whatever rnr_retry is. Reading the count is a remote read, made only when all known
// credits are used. Bound to the endpoint's thread, and must not outlive the endpoint. Allocates in
// its constructor.
class receive_credits {
 public:
  // Throws cordma::error: no_memory. REQUIRES that all messages on `sender` take a credit here,
  // from the first one on.
  receive_credits(Context& context, Endpoint& sender, const RemoteSlice& posted_by_peer,
                  const receive_credit_options& options = {});

  // Done when the peer has a receive for one more message; in FIFO order. Throws the errors of the
  // remote read: flushed when the connection ended. On cancellation: fails with canceled, and no
  // credit is consumed.
  [[nodiscard]] task<void> take();
  // Known credits that were not taken.
  [[nodiscard]] std::uint64_t available() const noexcept { return posted_ - taken_; }
  // Number of reads of the peer's count.
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }

 private:
  MemoryRegion copy_;  // of the peer's count
  Endpoint& sender_;
  RemoteSlice count_;
  receive_credit_options options_;
  mutex turn_;
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace cordma
