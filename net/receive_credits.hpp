// receive_credits: a sender that waits until its peer has a receive for it, instead of being refused.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/task.hpp>

namespace cordma {

struct receive_credit_options {
  // Between two looks at the peer's count while it has no receive for us.
  duration look_again = std::chrono::microseconds(50);
};

// Opt-in, for one direction of a connection: the receiving side publishes how many receives it posted
// (Endpoint::publish_receives, in memory with access::remote_read, whose blob it gives to the sender
// by any means), and the sender takes a credit for each message, with immediate or without, and each
// write with immediate. No message then arrives before its receive, whatever rnr_retry is. A look at
// the count is a remote read, made only when all known credits are used. Bound to the endpoint's
// thread, and must not outlive the endpoint. Allocates when it is made.
class receive_credits {
 public:
  // Throws cordma::error: no_memory. REQUIRES that all messages on `sender` take a credit here, from
  // the first one on.
  receive_credits(Context& context, Endpoint& sender, const RemoteSlice& posted_by_peer,
                  const receive_credit_options& options = {});

  // Done when the peer has a receive for one more message; first come, first served. Throws what the
  // remote read fails with: flushed when the connection ended. On cancellation: canceled, and nothing
  // is taken.
  [[nodiscard]] task<void> take();
  // Known to be there, and not taken.
  [[nodiscard]] std::uint64_t available() const noexcept { return posted_ - taken_; }
  // How often the peer's count was looked at.
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
