// The events of a Worker's devices, stored until they are requested, and the operations that wait
// for one.
#pragma once

#include <cordma/net/device_event.hpp>

#include <array>
#include <cstddef>

namespace cordma::detail {

// Bound to the Worker's thread. It never has stored events and waiting operations at the same time.
class device_event_queue {
 public:
  static constexpr std::size_t most_kept = 64;  // events; then the oldest is dropped, and counted

  void push(const device_event& e) noexcept;
  void wait(device_event_operation& op) noexcept;
  // No more events arrive: waiting operations fail with `why`.
  void shut_down(const failure& why) noexcept;

 private:
  std::array<device_event, most_kept> kept_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint32_t missed_ = 0;
  list<device_event_operation> waiting_;
};

}  // namespace cordma::detail
