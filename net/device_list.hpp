// device_list: the RDMA devices of this machine, and functions to find one.
#pragma once

#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cordma {

using gid = std::array<std::byte, 16>;  // in network order

// Parses "fe80::1", "::ffff:192.0.2.1" or the equivalent "192.0.2.1". Errors: invalid_value.
[[nodiscard]] result<gid> parse_gid(std::string_view text);

// An entry in a port's GID table.
struct device_gid {
  unsigned index = 0;
  gid value{};
  std::string type;    // "RoCE v2", "IB/RoCE v1"; empty if the kernel does not report it
  std::string netdev;  // "eth0"; empty on InfiniBand
};

// One port of one device.
struct device_port {
  std::string device;  // "mlx5_0"
  unsigned number = 1;
  // PCI address, "0000:3b:00.0"; empty for a device that is not on PCI, such as Soft-RoCE.
  std::string bdf;
  std::string state;  // as the kernel writes it: "4: ACTIVE"
  std::string link;   // "InfiniBand" or "Ethernet"
  std::vector<device_gid> gids;

  [[nodiscard]] bool is_active() const noexcept { return state.starts_with("4:"); }
  // Value for context_options::verbs.device, or CORDMA_VERBS_DEVICE, that selects this port:
  // "mlx5_0:1".
  [[nodiscard]] std::string setting() const { return device + ":" + std::to_string(number); }
};

// A value: the devices at the time of the snapshot, without a reference to them. Take another
// snapshot to see changes. Ports found in it are copies and may outlive it.
class device_list {
 public:
  // Reads the kernel's entries below `sys`. Empty if there are no drivers or nothing may be read.
  [[nodiscard]] static device_list snapshot(const std::filesystem::path& sys = "/sys");

  // Sorted by device name, then port number.
  [[nodiscard]] const std::vector<device_port>& ports() const& noexcept { return ports_; }
  [[nodiscard]] std::vector<device_port> ports() && noexcept { return std::move(ports_); }

  // Each function returns the first match, active ports before others. Errors: not_found, which
  // lists the existing ports; invalid_value, which states the fault in the text.
  // `name` is "mlx5_0" or "mlx5_0:2".
  [[nodiscard]] result<device_port> find_by_name(std::string_view name) const;
  // `bdf` is "0000:3b:00.0", or "3b:00.0" in domain 0.
  [[nodiscard]] result<device_port> find_by_bdf(std::string_view bdf) const;
  [[nodiscard]] result<device_port> find_by_gid(std::string_view text) const;
  // `name` is "eth0": a port that has a GID of this network interface.
  [[nodiscard]] result<device_port> find_by_netdev(std::string_view name) const;
  // Empty if no port matches.
  template <class Predicate>
  [[nodiscard]] std::optional<device_port> find_if(Predicate fits) const {
    const device_port* first = nullptr;
    for (const device_port& p : ports_) {
      if (!fits(p)) continue;
      if (p.is_active()) return p;
      if (first == nullptr) first = &p;
    }
    return first != nullptr ? std::optional(*first) : std::nullopt;
  }

 private:
  template <class Predicate>
  [[nodiscard]] result<device_port> find(std::string_view wanted, Predicate fits) const;
  std::vector<device_port> ports_;
};

}  // namespace cordma
