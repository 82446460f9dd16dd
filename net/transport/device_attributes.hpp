// The attributes of RDMA devices as data. Names and numbers follow ibv_query_device_ex(3) and
// ibv_query_port(3). An enum keeps a number, and a set of flags a bit, even if it has no name here.
#pragma once

#include <cordma/runtime/result.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cordma::transport {

// clang-format off
enum class wire_protocol : int { unknown = -1, infiniband, iwarp, usnic, usnic_udp, unspecified };
// Accesses that the device's atomic operations are atomic with: its own, or the CPU's too.
enum class atomic_scope : int { none, device, global };
// Whether registered memory stays usable after fork(); `marked`: its pages are not copied for the
// child.
enum class fork_safety : int { unsafe, marked, unneeded };
enum class port_state : int { nop, down, init, armed, active, active_defer };
enum class port_mtu : int { b256 = 1, b512, b1024, b2048, b4096 };  // 128 << code bytes in a packet
enum class port_link : std::uint8_t { unspecified, infiniband, ethernet };
enum class port_lanes : std::uint8_t { x1 = 1, x4 = 2, x8 = 4, x12 = 8, x2 = 16 };
enum class lane_speed : std::uint8_t {  // of one lane: 2.5, 5, 10, 10, 14, 25, 50, 100 Gb/s
  sdr = 1, ddr = 2, qdr = 4, fdr10 = 8, fdr = 16, edr = 32, hdr = 64, ndr = 128 };
enum class virtual_lanes : std::uint8_t { one = 1, two, four, eight, fifteen };
enum class physical_state : std::uint8_t {
  sleep = 1, polling, disabled, training, link_up, error_recovery, phy_test };
enum class gid_type : unsigned { infiniband, roce_v1, roce_v2 };

enum class device_flags : std::uint64_t {
  resize_max_wr         = 1ULL << 0,   bad_pkey_cntr         = 1ULL << 1,
  bad_qkey_cntr         = 1ULL << 2,   raw_multi             = 1ULL << 3,
  auto_path_mig         = 1ULL << 4,   change_phy_port       = 1ULL << 5,
  ud_av_port_enforce    = 1ULL << 6,   curr_qp_state_mod     = 1ULL << 7,
  shutdown_port         = 1ULL << 8,   init_type             = 1ULL << 9,
  port_active_event     = 1ULL << 10,  sys_image_guid        = 1ULL << 11,
  rc_rnr_nak_gen        = 1ULL << 12,  srq_resize            = 1ULL << 13,
  n_notify_cq           = 1ULL << 14,  mem_window            = 1ULL << 17,
  ud_ip_csum            = 1ULL << 18,  xrc                   = 1ULL << 20,
  mem_mgt_extensions    = 1ULL << 21,  mem_window_type_2a    = 1ULL << 23,
  mem_window_type_2b    = 1ULL << 24,  rc_ip_csum            = 1ULL << 25,
  raw_ip_csum           = 1ULL << 26,  managed_flow_steering = 1ULL << 29,
  // In extended_flags only:
  raw_scatter_fcs       = 1ULL << 34,  pci_write_end_padding = 1ULL << 36,
  flush_global          = 1ULL << 38,  flush_persistent      = 1ULL << 39,
  atomic_write          = 1ULL << 40 };
// On-demand paging: of parts of memory, or of all memory without registering any.
enum class odp_support : std::uint64_t { parts = 1, implicit = 2 };
enum class odp_ops : unsigned {
  send = 1, recv = 2, write = 4, read = 8, atomic = 16, srq_recv = 32 };
enum class raw_packet_ops : unsigned {
  cvlan_stripping = 1, scatter_fcs = 2, ip_csum = 4, delay_drop = 8 };
enum class pair_types : unsigned { rc = 1 << 2, uc = 1 << 3, ud = 1 << 4, raw_packet = 1 << 8 };
enum class tag_flags : unsigned { rc = 1 };
// clang-format on

template <class E>
concept attribute_flags =
    std::same_as<E, device_flags> || std::same_as<E, odp_support> || std::same_as<E, odp_ops> ||
    std::same_as<E, raw_packet_ops> || std::same_as<E, pair_types> || std::same_as<E, tag_flags>;
// True if `set` has every flag of `wanted`.
template <attribute_flags E>
[[nodiscard]] constexpr bool has(E set, E wanted) noexcept {
  return (static_cast<std::uint64_t>(set) & static_cast<std::uint64_t>(wanted)) ==
         static_cast<std::uint64_t>(wanted);
}

// Number and size limits of the device's objects.
struct device_limits {
  std::uint64_t max_mr_size = 0;                       // bytes of a memory region
  std::uint64_t page_size_cap = 0;                     // bit n: pages of 2^n bytes
  int max_mr = 0, max_pd = 0, max_mw = 0, max_ah = 0;  // regions, domains, windows, addresses
  int max_qp = 0, max_qp_wr = 0;                     // queue pairs; requests in a queue of one pair
  int max_sge = 0, max_sge_rd = 0;                   // segments of a request; of a read
  int max_cq = 0, max_cqe = 0;                       // completion queues; entries of one
  int max_srq = 0, max_srq_wr = 0, max_srq_sge = 0;  // the same for shared receive queues
  int max_qp_rd_atom = 0, max_res_rd_atom = 0;  // reads and atomics as target: per pair, in total
  int max_qp_init_rd_atom = 0;                  // as initiator, per pair
  int max_ee = 0, max_rdd = 0, max_ee_rd_atom = 0, max_ee_init_rd_atom = 0;  // reliable datagrams
  int max_raw_ipv6_qp = 0, max_raw_ethy_qp = 0;
  int max_mcast_grp = 0, max_mcast_qp_attach = 0, max_total_mcast_qp_attach = 0;  // multicast
  int max_fmr = 0, max_map_per_fmr = 0;  // fast memory regions
  std::uint16_t max_pkeys = 0;
};

// Optional abilities; 0: the device lacks the ability, or does not report it.
struct device_offloads {
  odp_support odp{};
  odp_ops odp_rc{}, odp_uc{}, odp_ud{}, odp_xrc{};
  std::uint64_t completion_timestamp_mask = 0;
  std::uint64_t hca_core_clock = 0;  // kHz
  raw_packet_ops raw_packet{};
  std::uint32_t max_tso = 0;  // bytes
  pair_types tso_types{}, rss_types{}, pacing_types{};
  std::uint32_t max_rwq_indirection_tables = 0, max_rwq_indirection_table_size = 0;
  std::uint64_t rx_hash_fields_mask = 0;
  std::uint8_t rx_hash_function = 0;
  std::uint32_t max_wq_type_rq = 0;
  std::uint32_t qp_rate_limit_min = 0, qp_rate_limit_max = 0;  // kb/s
  std::uint32_t tag_header_bytes = 0, max_tags = 0, max_tag_ops = 0, max_tag_sge = 0;
  tag_flags tags{};
  std::uint16_t max_cq_count = 0, max_cq_period = 0;  // completion moderation; microseconds
  std::uint64_t max_dm_size = 0;                      // bytes of the device's own memory
};

struct port_gid {
  unsigned index = 0;
  std::array<std::byte, 16> value{};  // network order
  gid_type type{};
};
struct port_pkey {
  unsigned index = 0;
  std::uint16_t value = 0;
};
struct port_attributes {
  unsigned number = 1;
  std::optional<failure> failed;  // reason for a failed read; only `number` is set then
  port_state state{};
  port_mtu max_mtu{}, active_mtu{};
  port_link link_layer{};
  std::uint16_t lid = 0, sm_lid = 0;
  std::uint8_t lmc = 0, sm_sl = 0, subnet_timeout = 0, init_type_reply = 0;
  std::uint32_t max_msg_sz = 0;  // bytes
  std::uint32_t port_cap_flags = 0;
  std::uint16_t port_cap_flags2 = 0;
  virtual_lanes max_vl_num{};
  std::uint32_t bad_pkey_cntr = 0, qkey_viol_cntr = 0;
  port_lanes active_width{};
  lane_speed active_speed{};
  physical_state phys_state{};
  std::uint16_t pkey_tbl_len = 0;
  int gid_tbl_len = 0;
  std::vector<port_gid> gids;    // entries in use
  std::vector<port_pkey> pkeys;  // entries in use
};

// A feature beyond requests and completions; Context::require() takes its name.
struct device_extra {
  std::string_view name;  // static
  bool on_device = false;
  bool offered = false;  // cordma offers it on devices that have it
};

struct device_attributes {
  std::string name;               // "mlx5_0"
  std::optional<failure> failed;  // reason why it cannot be opened or read; only `name` is set then
  wire_protocol transport{};
  std::string fw_ver, board_id;  // empty if the driver reports none
  std::uint64_t node_guid = 0, sys_image_guid = 0;
  std::uint32_t vendor_id = 0, vendor_part_id = 0, hw_ver = 0;
  device_flags flags{}, extended_flags{};
  atomic_scope atomic_cap{};
  device_limits limits;
  device_offloads offloads;
  std::uint8_t local_ca_ack_delay = 0;  // code n: 4.096 us * 2^n
  int num_comp_vectors = 0;
  std::uint8_t phys_port_cnt = 0;
  fork_safety fork{};
  std::vector<port_attributes> ports;
  std::vector<device_extra> extras;
};

// Opens each RDMA device of this machine, reads it and closes it. Callable from any thread. Blocks
// while drivers respond, and creates objects on the device to detect its extras. The result is in
// the order of libibverbs; empty without devices. Errors: not_supported (a build without verbs),
// and those of listing devices.
[[nodiscard]] result<std::vector<device_attributes>> query_devices();

}  // namespace cordma::transport
