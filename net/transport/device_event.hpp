// Events that an RDMA device reports independently of requests.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <cstdint>
#include <string_view>

namespace cordma::transport {

struct device_event {
  enum class type : std::uint8_t {
    other,    // no name here: see `native`
    port_up,  // the port carries traffic again
    // the port carries no traffic; connections end at the latest after their peer_timeout
    port_down,
    gid_change,      // an address of the port was added, removed or moved
    pkey_change,     // a partition was added, removed or moved
    lid_change,      // InfiniBand: the subnet manager assigned the port another LID
    manager_change,  // InfiniBand: another subnet manager, or it requires ports to register again
    device_failed,   // the device failed or was removed; every connection on it ends
    foreign,         // about an object that the program created itself: see `element`
  };
  type what = type::other;
  std::uint8_t port = 0;          // 0: not about a port
  std::uint32_t native = 0;       // the driver's number: ibv_event_type
  const void* element = nullptr;  // foreign: the ibv_qp, ibv_cq, ibv_srq or ibv_wq; only to compare
  std::uint32_t missed = 0;  // events dropped before this one because the program did not read them
};
inline constexpr std::size_t device_event_types = 9;
static_assert(static_cast<std::size_t>(device_event::type::foreign) + 1 == device_event_types);
[[nodiscard]] std::string_view name(device_event::type t) noexcept;

}  // namespace cordma::transport
