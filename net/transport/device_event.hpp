// What an RDMA device tells on its own account, beside the completions of requests.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <cstdint>
#include <string_view>

namespace cordma::transport {

struct device_event {
  enum class type : std::uint8_t {
    other,           // one that has no name here: see `native`
    port_up,         // the port carries traffic, again
    port_down,       // it does not; connections end, when their peer_timeout has run out or sooner
    gid_change,      // an address of the port came, went or moved
    pkey_change,     // so did a partition
    lid_change,      // InfiniBand: the subnet manager gave the port another LID
    manager_change,  // InfiniBand: another subnet manager, or it wants ports to register again
    device_failed,   // nothing works any more, or it was removed; every connection ends with it
    foreign,         // about an object that the program made by itself: see `element`
  };
  type what = type::other;
  std::uint8_t port = 0;          // 0: not about a port
  std::uint32_t native = 0;       // the driver's own number: ibv_event_type
  const void* element = nullptr;  // foreign: the ibv_qp, ibv_cq, ibv_srq or ibv_wq; to be compared
  std::uint32_t missed = 0;       // events before this one that were dropped, because nobody asked
};
inline constexpr std::size_t device_event_types = 9;
static_assert(static_cast<std::size_t>(device_event::type::foreign) + 1 == device_event_types);
[[nodiscard]] std::string_view name(device_event::type t) noexcept;

}  // namespace cordma::transport
