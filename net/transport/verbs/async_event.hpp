// An asynchronous event of the device, on its way to the adapters that it concerns.
#pragma once

#include <cordma/net/transport/device_event.hpp>

#include <infiniband/verbs.h>

namespace cordma::transport::verbs {

struct async_event {
  enum class subject : std::uint8_t {
    device,   // or a port of it
    own,      // a queue pair, receive or completion queue of the adapter that is told
    foreign,  // an object that no adapter made
  };
  ibv_event_type what;
  subject about = subject::device;
  std::uint8_t port = 0;
  std::uint32_t pair = 0;         // number of the queue pair, where it is about one
  const void* context = nullptr;  // of that, or of the queue: the adapter, if it is ours
  const void* element = nullptr;  // what it is about, unless that is the device
};
// What has to be known of it once it is acknowledged; `own` is not told from `foreign` yet.
[[nodiscard]] async_event to_event(const ibv_async_event& e) noexcept;

// As programs are told of it. REQUIRES that it is not about an object of our own.
[[nodiscard]] device_event to_device_event(const async_event& e) noexcept;

}  // namespace cordma::transport::verbs
