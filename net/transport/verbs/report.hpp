// What the report of RDMA devices says of a device and of a port: every line of `ibv_devinfo -v` (rdma-core
// 44), in its words and order. No I/O, no device: report.cpp asks for what is told here.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cordma::transport::verbs {

struct device_facts {
  std::string name;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::string board;  // empty: the driver does not say
  int completion_vectors = 0;
  ibv_device_attr_ex attributes{};
};

struct port_facts {
  unsigned number = 1;
  ibv_transport_type transport = IBV_TRANSPORT_IB;  // the device's
  ibv_port_attr attributes{};
  std::vector<ibv_gid_entry> gids;  // of this port
};

// All but its ports.
[[nodiscard]] std::string report_of(const device_facts& d);
// The part of it about what some devices can do and others cannot.
[[nodiscard]] std::string report_of_abilities(const ibv_device_attr_ex& x);
[[nodiscard]] std::string report_of(const port_facts& p);

}  // namespace cordma::transport::verbs
