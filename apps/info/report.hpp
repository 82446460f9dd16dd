// What `cordma-info --devices` prints: every line of `ibv_devinfo -v` (rdma-core 44), in its words
// and order, then what cordma adds. No I/O.
#pragma once

#include <cordma/net/device_attributes.hpp>

#include <string>

namespace info {

// All of it.
[[nodiscard]] std::string report_of(const cordma::device_attributes& d);

// Its parts: the device without its ports and extras; the device's offloads, which are a part of
// that; a port; the extras.
[[nodiscard]] std::string report_of_device(const cordma::device_attributes& d);
[[nodiscard]] std::string report_of_offloads(const cordma::device_attributes& d);
[[nodiscard]] std::string report_of_port(const cordma::port_attributes& p,
                                         cordma::wire_protocol transport);
[[nodiscard]] std::string report_of_extras(const cordma::device_attributes& d);

}  // namespace info
