// An asynchronous event of the device, forwarded to the adapters that it concerns.
#pragma once

#include <cordma/net/transport/device_event.hpp>

#include <infiniband/verbs.h>

namespace cordma::transport::verbs {

struct async_event {
  enum class subject : std::uint8_t {
    device,   // the device, or a port of it
    own,      // a queue pair, receive queue or completion queue of the receiving adapter
    foreign,  // an object that no adapter created
  };
  ibv_event_type what;
  subject about = subject::device;
  std::uint8_t port = 0;
  std::uint32_t pair = 0;         // number of the queue pair, if it is about one
  const void* context = nullptr;  // of the queue pair or queue: the adapter, if it is ours
  const void* element = nullptr;  // object of the event, unless that is the device
};
// Copies the fields needed after the acknowledgement. Does not distinguish `own` from `foreign`
// yet.
[[nodiscard]] async_event to_event(const ibv_async_event& e) noexcept;

// Converts it for programs. REQUIRES that it is not about an object of ours.
[[nodiscard]] device_event to_device_event(const async_event& e) noexcept;

}  // namespace cordma::transport::verbs
