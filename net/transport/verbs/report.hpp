// The report of RDMA devices for people: every line of `ibv_devinfo -v` (rdma-core 44), in its words and order, then what
// cordma knows beyond that. No I/O.
#pragma once

#include <cordma/net/transport/device_attributes.hpp>

#include <string>

namespace cordma::transport::verbs {

// All of it.
[[nodiscard]] std::string report_of(const device_attributes& d);

// Its parts: the device without its ports and extras; of that what some devices do and others do not; a port; the end.
[[nodiscard]] std::string report_of_device(const device_attributes& d);
[[nodiscard]] std::string report_of_offloads(const device_attributes& d);
[[nodiscard]] std::string report_of_port(const port_attributes& p, wire_protocol transport);
[[nodiscard]] std::string report_of_extras(const device_attributes& d);

}  // namespace cordma::transport::verbs
