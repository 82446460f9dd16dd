// What cordma-info knows about this machine; how it is shown is for others.
#pragma once

#include <cordma/cordma.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace info {

struct limit {
  std::string name;
  std::optional<std::uint64_t> value;  // none: unlimited
  std::string unit;
  std::string why;  // who needs it; what to do where it is low
};

struct rdma_port {
  std::string device;
  unsigned number = 1;
  std::string state;  // as the kernel words it
  std::string link;   // InfiniBand or Ethernet
};

struct facts {
  std::string kernel;
  std::string machine;
  unsigned cpus = 0;  // this process may use
  std::vector<cordma::transport::capabilities> transports;
  std::vector<std::pair<cordma::transport::kind, std::string>> missing;  // and why
  std::vector<rdma_port> ports;                                          // of RDMA devices
  std::string no_device;  // what to do; empty where there is one
  std::vector<limit> limits;
  std::vector<cordma::config_entry> settings;
  std::vector<std::string> warnings;  // about the environment
};
// Throws cordma::error where the configuration is wrong.
[[nodiscard]] facts collect();

// What to do where there is no RDMA device.
[[nodiscard]] std::string no_device_text();

[[nodiscard]] std::string to_text(const facts& f);
[[nodiscard]] std::string to_brief_text(const facts& f);
[[nodiscard]] std::string to_json(const facts& f);

// "send, write, ..." of the operations that `c` has in a service; empty where it lacks the service.
[[nodiscard]] std::vector<std::string> operations(const cordma::transport::capabilities& c,
                                                  cordma::transport::service s);

}  // namespace info
