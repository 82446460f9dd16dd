// Output of `cordma-info --devices`: every line of `ibv_devinfo -v` (rdma-core 44), with the same
// wording and order, followed by cordma's additions. No I/O.
#pragma once

#include <cordma/net/device_attributes.hpp>

#include <string>

namespace info {

// The complete report.
[[nodiscard]] std::string report_of(const cordma::device_attributes& d);

// Its parts: the device without its ports and extras; the device's offloads, which are included in
// report_of_device(); a port; the extras.
[[nodiscard]] std::string report_of_device(const cordma::device_attributes& d);
[[nodiscard]] std::string report_of_offloads(const cordma::device_attributes& d);
[[nodiscard]] std::string report_of_port(const cordma::port_attributes& p,
                                         cordma::wire_protocol transport);
[[nodiscard]] std::string report_of_extras(const cordma::device_attributes& d);

}  // namespace info
