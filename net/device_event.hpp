// Events of the devices behind a Worker: a port that goes down, an address that moves.
#pragma once

#include <cordma/net/transport/device_event.hpp>
#include <cordma/runtime/operation.hpp>

#include <optional>

namespace cordma {

using transport::device_event;

namespace detail {
class device_event_queue;
class worker_core;
}  // namespace detail

// Resolves with the next event of any device of the Worker's transports, in order; at once where one is
// kept. Where several wait, each event goes to the one who has waited longest. What is about a
// connection is not told here: it ends that connection, and its first_cause() says so.
// Errors: not_supported (no transport of the Worker tells of events), shutdown (the Worker is gone),
// no_lock. On cancellation: withdrawn, canceled.
class [[nodiscard]] device_event_operation final
    : public operation<device_event_operation, device_event> {
 public:
  explicit device_event_operation(detail::worker_core& worker) noexcept;
  device_event_operation(device_event_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::device_event_queue;
  void do_start() noexcept;
  void do_cancel() noexcept;
  device_event take() const noexcept { return event_; }
  void resolve(const device_event& e) noexcept;
  void fail(failure why) noexcept;

  detail::worker_core* worker_;
  device_event event_;
};

}  // namespace cordma
