// device_list: the RDMA devices of this machine and how to find one.
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

// "fe80::1", "::ffff:192.0.2.1" or "192.0.2.1", which means the same. invalid_value.
[[nodiscard]] result<gid> parse_gid(std::string_view text);

// A place in a port's table of GIDs.
struct device_gid {
  unsigned index = 0;
  gid value{};
  std::string type;    // "RoCE v2", "IB/RoCE v1"; empty where the kernel does not say
  std::string netdev;  // "eth0"; empty on InfiniBand
};

// One port of one device.
struct device_port {
  std::string device;  // "mlx5_0"
  unsigned number = 1;
  std::string bdf;    // PCI address, "0000:3b:00.0"; empty of what is not on PCI, such as Soft-RoCE
  std::string state;  // as the kernel words it: "4: ACTIVE"
  std::string link;   // "InfiniBand" or "Ethernet"
  std::vector<device_gid> gids;

  [[nodiscard]] bool is_active() const noexcept { return state.starts_with("4:"); }
  // What context_options::verbs.device, or CORDMA_VERBS_DEVICE, takes to use this port: "mlx5_0:1".
  [[nodiscard]] std::string setting() const { return device + ":" + std::to_string(number); }
};

// A value: what there was when the snapshot was made, with no way back to the devices. Whoever wants to
// know what has changed since makes another. What is found in it is a copy and may outlive it.
class device_list {
 public:
  // As the kernel shows it below `sys`; without drivers, or where nothing may be read, it is empty.
  [[nodiscard]] static device_list snapshot(const std::filesystem::path& sys = "/sys");

  // In the order of device names and port numbers.
  [[nodiscard]] const std::vector<device_port>& ports() const& noexcept { return ports_; }
  [[nodiscard]] std::vector<device_port> ports() && noexcept { return std::move(ports_); }

  // Each finds the first that fits, an active port before others. not_found says what is there instead,
  // invalid_value what is wrong with the text.
  // "mlx5_0" or "mlx5_0:2".
  [[nodiscard]] result<device_port> find_by_name(std::string_view name) const;
  // "0000:3b:00.0", or "3b:00.0" in domain 0.
  [[nodiscard]] result<device_port> find_by_bdf(std::string_view bdf) const;
  [[nodiscard]] result<device_port> find_by_gid(std::string_view text) const;
  // "eth0": a port that has a GID of this network interface.
  [[nodiscard]] result<device_port> find_by_netdev(std::string_view name) const;
  // Empty where no port fits.
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
