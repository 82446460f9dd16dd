// The events of a Worker's devices, kept until somebody asks for them, and those who wait for one.
#pragma once

#include <cordma/net/device_event.hpp>

#include <array>
#include <cstddef>

namespace cordma::detail {

// Bound to the Worker's thread. Never both: events that are kept, and somebody who waits.
class device_event_queue {
 public:
  static constexpr std::size_t most_kept = 64;  // events; then the oldest goes, and is counted

  void push(const device_event& e) noexcept;
  void wait(device_event_operation& op) noexcept;
  // Nothing more comes: who waits learns why.
  void shut_down(const failure& why) noexcept;

 private:
  std::array<device_event, most_kept> kept_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint32_t missed_ = 0;
  list<device_event_operation> waiting_;
};

}  // namespace cordma::detail
