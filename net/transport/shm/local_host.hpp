// Which addresses are this machine's, and in which network namespace.
#pragma once

#include <array>
#include <cordma/runtime/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// IPv6, or IPv4 as ::ffff:a.b.c.d; in the order of the wire.
using ip_address = std::array<std::uint8_t, 16>;
[[nodiscard]] bool is_loopback(const ip_address& a) noexcept;
[[nodiscard]] bool is_link_local(const ip_address& a) noexcept;
[[nodiscard]] std::string to_text(const ip_address& a);

// What the host of an address means here.
struct named_host {
  bool here = false;  // it is this machine, or one of its addresses is of this machine
  // Those of them that are of this machine. None: every address of this machine.
  std::vector<ip_address> addresses;
};
// An address is of this machine if the kernel delivers to it what is sent there (ip_nonlocal_bind, and who may bind what,
// make no difference). May resolve the name. no_memory if no descriptor is left to find out.
[[nodiscard]] result<named_host> look_up(const std::string& host);

// Names the network namespace of this process. All zero: the kernel does not say.
struct network_namespace {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  [[nodiscard]] bool operator==(const network_namespace&) const = default;
};
[[nodiscard]] network_namespace own_namespace() noexcept;

}  // namespace cordma::transport::shm
