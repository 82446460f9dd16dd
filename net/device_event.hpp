// Asynchronous events of a Worker's devices, such as a port that goes down or an address that
// moves.
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

// Resolves with the next event of any device of the Worker's transports, in order; at once if one
// is stored. If several operations wait, each event resolves the one that has waited longest.
// Events about one connection are not reported here: they end that connection, and its
// first_cause() contains them. Errors: not_supported (no transport of the Worker reports events),
// shutdown (the Worker is destroyed), no_lock. On cancellation: withdrawn; fails with canceled.
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
