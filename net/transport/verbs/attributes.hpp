// Converts the attributes that libibverbs reports for a device, a port and a GID to the data of
// device_attributes.hpp. No I/O; query_devices.cpp queries.
#pragma once

#include <cordma/net/transport/device_attributes.hpp>

#include <infiniband/verbs.h>

namespace cordma::transport::verbs {

// Sets all fields but name, board, transport, completion vectors, fork, ports and extras.
[[nodiscard]] device_attributes to_attributes(const ibv_device_attr_ex& x);
// Sets all fields but number, GIDs and P_Keys.
[[nodiscard]] port_attributes to_attributes(const ibv_port_attr& a);
[[nodiscard]] port_gid to_attributes(const ibv_gid_entry& e) noexcept;

}  // namespace cordma::transport::verbs
