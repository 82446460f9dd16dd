#include <cordma/net/transport/device_event.hpp>

namespace cordma::transport {

std::string_view name(device_event::type t) noexcept {
  using type = device_event::type;
  switch (t) {
    case type::other: return "other";
    case type::port_up: return "port up";
    case type::port_down: return "port down";
    case type::gid_change: return "gid change";
    case type::pkey_change: return "pkey change";
    case type::lid_change: return "lid change";
    case type::manager_change: return "manager change";
    case type::device_failed: return "device failed";
    case type::foreign: return "foreign";
  }
  return "?";
}

}  // namespace cordma::transport
