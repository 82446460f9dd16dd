// Facts about this machine for cordma-info, independent of their presentation.
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
  std::string why;  // its purpose, and a remedy if it is too low
};

struct rdma_port {
  std::string device;
  unsigned number = 1;
  std::string state;  // in the kernel's words
  std::string link;   // InfiniBand or Ethernet
};

struct facts {
  std::string kernel;
  std::string machine;
  unsigned cpus = 0;  // number that this process may use
  std::vector<cordma::transport::capabilities> transports;
  std::vector<std::pair<cordma::transport::kind, std::string>> missing;  // with the reason
  std::vector<rdma_port> ports;                                          // of RDMA devices
  std::string no_device;  // remedy if there is no device; else empty
  std::vector<limit> limits;
  std::vector<cordma::config_entry> settings;
  std::vector<std::string> warnings;  // about the environment
};
// Throws cordma::error if the configuration is invalid.
[[nodiscard]] facts collect();

// The remedy if there is no RDMA device.
[[nodiscard]] std::string no_device_text();

[[nodiscard]] std::string to_text(const facts& f);
[[nodiscard]] std::string to_brief_text(const facts& f);
[[nodiscard]] std::string to_json(const facts& f);

// The operations of `c` in a service: "send", "write", ...; empty if it lacks the service.
[[nodiscard]] std::vector<std::string> operations(const cordma::transport::capabilities& c,
                                                  cordma::transport::service s);

}  // namespace info
