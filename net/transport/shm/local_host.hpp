// Determines which addresses belong to this machine, and its network namespace.
#pragma once

#include <array>
#include <cordma/runtime/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// IPv6, or IPv4 as ::ffff:a.b.c.d; in network byte order.
using ip_address = std::array<std::uint8_t, 16>;
[[nodiscard]] bool is_loopback(const ip_address& a) noexcept;
[[nodiscard]] bool is_link_local(const ip_address& a) noexcept;
[[nodiscard]] std::string to_text(const ip_address& a);

// A host name or address, as seen from this machine.
struct named_host {
  bool here = false;  // it is this machine, or one of its addresses belongs to this machine
  // Its addresses that belong to this machine. Empty: every address of this machine.
  std::vector<ip_address> addresses;
};
// An address belongs to this machine if the kernel delivers packets for it locally
// (ip_nonlocal_bind, and permissions to bind, make no difference). May resolve the name. no_memory:
// no descriptor is left for the look-up.
[[nodiscard]] result<named_host> look_up(const std::string& host);

// Identifies the network namespace of this process. All zero: the kernel does not report it.
struct network_namespace {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  [[nodiscard]] bool operator==(const network_namespace&) const = default;
};
[[nodiscard]] network_namespace own_namespace() noexcept;

}  // namespace cordma::transport::shm
