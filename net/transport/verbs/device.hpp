// The RDMA device of a domain: found, opened and queried.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/calls.hpp>

#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::transport::verbs {

// Releases objects of libibverbs, each with its own call.
struct releaser {
  void operator()(ibv_context* c) const noexcept { ibv_close_device(c); }
  void operator()(ibv_pd* p) const noexcept { ibv_dealloc_pd(p); }
  void operator()(ibv_mr* m) const noexcept { ibv_dereg_mr(m); }
  void operator()(ibv_mw* w) const noexcept { ibv_dealloc_mw(w); }
  void operator()(ibv_cq* q) const noexcept { ibv_destroy_cq(q); }
  void operator()(ibv_cq_ex* q) const noexcept { ibv_destroy_cq(ibv_cq_ex_to_cq(q)); }
  void operator()(ibv_qp* q) const noexcept { ibv_destroy_qp(q); }
  void operator()(ibv_srq* q) const noexcept { ibv_destroy_srq(q); }
  void operator()(ibv_ah* a) const noexcept { ibv_destroy_ah(a); }
  void operator()(ibv_comp_channel* c) const noexcept { ibv_destroy_comp_channel(c); }
};
template <class T>
using owned = std::unique_ptr<T, releaser>;

// The same for objects that may belong to the program, which are not released.
struct unless_borrowed {
  bool borrowed = false;
  template <class T>
  void operator()(T* t) const noexcept {
    if (!borrowed) releaser()(t);
  }
};
template <class T>
using owned_or_borrowed = std::unique_ptr<T, unless_borrowed>;

using gid_bytes = std::array<std::byte, 16>;
[[nodiscard]] gid_bytes to_bytes(const ibv_gid& gid) noexcept;
[[nodiscard]] ibv_gid to_gid(const gid_bytes& bytes) noexcept;

// The device selected by the options; the attributes are those at the time of opening.
struct device {
  owned_or_borrowed<ibv_context> context;
  std::string name;
  ibv_device_attr_ex attributes{};
  std::uint8_t port = 0;  // 0: none yet
  ibv_port_attr port_attributes{};
  std::vector<ibv_gid_entry> gids;  // of this port, at the time of opening
  std::uint16_t pkey_index = 0;
  std::uint16_t pkey = 0;        // the key at that index
  std::uint32_t max_inline = 0;  // bytes; found by trying
  extended_calls extended;       // supported calls that are wanted

  [[nodiscard]] bool is_ethernet() const noexcept {
    return port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  }
  // The kernel's rdma_rxe, which differs from hardware in some points: see README.md.
  [[nodiscard]] bool is_soft_roce() const noexcept {
    return attributes.orig_attr.vendor_id == 0xFFFFFF;
  }
  // Number of repetitions of a request: Soft-RoCE repeats forever for the largest number.
  [[nodiscard]] std::uint8_t retries(std::uint8_t asked) const noexcept {
    return is_soft_roce() && asked == 7 ? 6 : asked;
  }
};

// Failure to open a file under /dev/infiniband. The libraries report that it does not exist if it
// is only closed to this user: that is not_permitted. Otherwise the meaning of `code`, or
// no_memory.
[[nodiscard]] failure cannot_open(const std::string& what, const std::string& file, int code);

// The current value, which changes with the network interface's MTU; as an ibv_mtu.
[[nodiscard]] std::uint8_t active_mtu(const device& d) noexcept;
// Empty, with errno set, if the device does not report them.
[[nodiscard]] std::optional<std::vector<ibv_gid_entry>> read_gids(ibv_context* context,
                                                                  std::uint8_t port);
// Returns the GID for traffic that rdma_cm does not route: the one at `index`, else one of the
// family of `like` (null: any), RoCE v2 before v1, IPv4 before IPv6, global before link-local.
// Empty: there is none.
[[nodiscard]] std::optional<ibv_gid_entry> choose_gid(const std::vector<ibv_gid_entry>& gids,
                                                      int index, const gid_bytes* like) noexcept;

// not_supported: no device, none with an active port, or none with the calls that the options
// demand. not_found: the device, port, GID or P_Key of the options does not exist; the message
// lists those that do. not_permitted: the device exists, but is closed to this user. no_memory:
// also if no descriptor is left. If no port fits, the first refusal is returned. The device of
// `options.pd`, if set, is borrowed. The first device is followed by the next usable ports, at most
// options.rails in total.
[[nodiscard]] result<std::vector<device>> open_devices(const verbs_options& options);
[[nodiscard]] capabilities describe(const device& d, const verbs_options& options);

// Registers with these IBV_ACCESS_* flags; null, with errno set, if the device refuses.
[[nodiscard]] owned<ibv_mr> register_bytes(ibv_pd* pd, void* at, std::size_t bytes, unsigned flags);

// For messages: "192.0.2.1" for a v4-mapped GID, else IPv6 notation.
[[nodiscard]] std::string to_text(const ibv_gid& gid);
// As subnet managers print it: "0xffff".
[[nodiscard]] std::string pkey_text(std::uint16_t pkey);

}  // namespace cordma::transport::verbs
