// The RDMA devices of this machine for people: every line of `ibv_devinfo -v`, in its words and order, and
// last what each has beyond that.
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/extras.hpp>

#include <arpa/inet.h>
#include <endian.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>

namespace cordma::transport {
namespace {

using verbs::owned;

struct bit_name {
  std::uint64_t bit;
  const char* name;
};

constexpr std::array device_bits{
    bit_name{IBV_DEVICE_RESIZE_MAX_WR, "RESIZE_MAX_WR"},
    bit_name{IBV_DEVICE_BAD_PKEY_CNTR, "BAD_PKEY_CNTR"},
    bit_name{IBV_DEVICE_BAD_QKEY_CNTR, "BAD_QKEY_CNTR"},
    bit_name{IBV_DEVICE_RAW_MULTI, "RAW_MULTI"},
    bit_name{IBV_DEVICE_AUTO_PATH_MIG, "AUTO_PATH_MIG"},
    bit_name{IBV_DEVICE_CHANGE_PHY_PORT, "CHANGE_PHY_PORT"},
    bit_name{IBV_DEVICE_UD_AV_PORT_ENFORCE, "UD_AV_PORT_ENFORCE"},
    bit_name{IBV_DEVICE_CURR_QP_STATE_MOD, "CURR_QP_STATE_MOD"},
    bit_name{IBV_DEVICE_SHUTDOWN_PORT, "SHUTDOWN_PORT"},
    bit_name{IBV_DEVICE_INIT_TYPE, "INIT_TYPE"},
    bit_name{IBV_DEVICE_PORT_ACTIVE_EVENT, "PORT_ACTIVE_EVENT"},
    bit_name{IBV_DEVICE_SYS_IMAGE_GUID, "SYS_IMAGE_GUID"},
    bit_name{IBV_DEVICE_RC_RNR_NAK_GEN, "RC_RNR_NAK_GEN"},
    bit_name{IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE"},
    bit_name{IBV_DEVICE_N_NOTIFY_CQ, "N_NOTIFY_CQ"},
    bit_name{IBV_DEVICE_MEM_WINDOW, "MEM_WINDOW"},
    bit_name{IBV_DEVICE_UD_IP_CSUM, "UD_IP_CSUM"},
    bit_name{IBV_DEVICE_XRC, "XRC"},
    bit_name{IBV_DEVICE_MEM_MGT_EXTENSIONS, "MEM_MGT_EXTENSIONS"},
    bit_name{IBV_DEVICE_MEM_WINDOW_TYPE_2A, "MEM_WINDOW_TYPE_2A"},
    bit_name{IBV_DEVICE_MEM_WINDOW_TYPE_2B, "MEM_WINDOW_TYPE_2B"},
    bit_name{IBV_DEVICE_RC_IP_CSUM, "RC_IP_CSUM"},
    bit_name{IBV_DEVICE_RAW_IP_CSUM, "RAW_IP_CSUM"},
    bit_name{IBV_DEVICE_MANAGED_FLOW_STEERING, "MANAGED_FLOW_STEERING"}};

constexpr std::array odp_bits{bit_name{IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND"},
                              bit_name{IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV"},
                              bit_name{IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE"},
                              bit_name{IBV_ODP_SUPPORT_READ, "SUPPORT_READ"},
                              bit_name{IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC"},
                              bit_name{IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ"}};

class text {
 public:
  // One line, `depth` tabs in, as printf writes it.
  [[gnu::format(printf, 3, 4)]] void line(int depth, const char* format, ...) {
    std::array<char, 512> room{};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(room.data(), room.size(), format, arguments);
    va_end(arguments);
    all_.append(static_cast<std::size_t>(depth), '\t').append(room.data()).append("\n");
  }
  // "name:<tabs>value", the values in one column.
  void field(int depth, const char* name, const std::string& value) {
    constexpr std::size_t column = 32;
    std::string head = std::string(name) + ":";
    std::size_t at = head.size();
    do {
      head += '\t';
      at = (at / 8 + 1) * 8;
    } while (at < column);
    line(depth, "%s%s", head.c_str(), value.c_str());
  }
  void number(int depth, const char* name, std::uint64_t value) {
    field(depth, name, std::to_string(value));
  }
  [[nodiscard]] std::string take() noexcept { return std::move(all_); }

 private:
  std::string all_;
};

std::string guid(__be64 raw) {
  const std::uint64_t v = be64toh(raw);
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "%04x:%04x:%04x:%04x",
                static_cast<unsigned>(v >> 48 & 0xFFFF), static_cast<unsigned>(v >> 32 & 0xFFFF),
                static_cast<unsigned>(v >> 16 & 0xFFFF), static_cast<unsigned>(v & 0xFFFF));
  return room.data();
}

std::string hex(std::uint64_t value, int digits) {
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "0x%0*llx", digits,
                static_cast<unsigned long long>(value));
  return room.data();
}

const char* transport_name(ibv_transport_type t) noexcept {
  switch (t) {
    case IBV_TRANSPORT_IB: return "InfiniBand (0)";
    case IBV_TRANSPORT_IWARP: return "iWARP (1)";
    case IBV_TRANSPORT_USNIC: return "usNIC (2)";
    case IBV_TRANSPORT_USNIC_UDP: return "usNIC UDP (3)";
    default: return "unspecified";
  }
}

const char* atomics(ibv_atomic_cap c) noexcept {
  switch (c) {
    case IBV_ATOMIC_NONE: return "ATOMIC_NONE (0)";
    case IBV_ATOMIC_HCA: return "ATOMIC_HCA (1)";
    case IBV_ATOMIC_GLOB: return "ATOMIC_GLOB (2)";
  }
  return "?";
}

std::string mtu(ibv_mtu m) {
  return std::to_string(128U << static_cast<unsigned>(m)) + " (" +
         std::to_string(static_cast<int>(m)) + ")";
}

const char* width(std::uint8_t w) noexcept {
  switch (w) {
    case 1: return "1X (1)";
    case 2: return "4X (2)";
    case 4: return "8X (4)";
    case 8: return "12X (8)";
    case 16: return "2X (16)";
    default: return "invalid width";
  }
}

const char* speed(std::uint8_t s) noexcept {
  switch (s) {
    case 1: return "2.5 Gbps (1)";
    case 2: return "5.0 Gbps (2)";
    case 4: return "10.0 Gbps (4)";
    case 8: return "10.0 Gbps (8)";
    case 16: return "14.0 Gbps (16)";
    case 32: return "25.0 Gbps (32)";
    case 64: return "50.0 Gbps (64)";
    case 128: return "100.0 Gbps (128)";
    default: return "invalid speed";
  }
}

const char* state_name(ibv_port_state s) noexcept {
  switch (s) {
    case IBV_PORT_DOWN: return "PORT_DOWN (1)";
    case IBV_PORT_INIT: return "PORT_INIT (2)";
    case IBV_PORT_ARMED: return "PORT_ARMED (3)";
    case IBV_PORT_ACTIVE: return "PORT_ACTIVE (4)";
    default: return "invalid state";
  }
}

const char* vl_number(std::uint8_t v) noexcept {
  switch (v) {
    case 1: return "1 (1)";
    case 2: return "2 (2)";
    case 3: return "4 (3)";
    case 4: return "8 (4)";
    case 5: return "15 (5)";
    default: return "invalid value";
  }
}

const char* physical_state(std::uint8_t s) noexcept {
  switch (s) {
    case 1: return "SLEEP (1)";
    case 2: return "POLLING (2)";
    case 3: return "DISABLED (3)";
    case 4: return "PORT_CONFIGURATION TRAINNING (4)";
    case 5: return "LINK_UP (5)";
    case 6: return "LINK_ERROR_RECOVERY (6)";
    case 7: return "PHY TEST (7)";
    default: return "invalid physical state";
  }
}

const char* link_layer(std::uint8_t l) noexcept {
  switch (l) {
    case IBV_LINK_LAYER_INFINIBAND: return "InfiniBand";
    case IBV_LINK_LAYER_ETHERNET: return "Ethernet";
    default: return "Unknown";
  }
}

const char* gid_type(std::uint32_t type) noexcept {
  switch (type) {
    case IBV_GID_TYPE_IB: return "IB";
    case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
    default: return "?";
  }
}

void add_gids(text& out, ibv_context* context, std::uint8_t port) {
  std::vector<ibv_gid_entry> all(1024);
  const ssize_t n = ibv_query_gid_table(context, all.data(), all.size(), 0);
  for (ssize_t i = 0; i < n; ++i) {
    const ibv_gid_entry& e = all[static_cast<std::size_t>(i)];
    if (e.port_num != port) continue;
    std::array<char, INET6_ADDRSTRLEN> gid{};
    inet_ntop(AF_INET6, e.gid.raw, gid.data(), gid.size());
    out.line(3, "GID[%3u]:\t\t%s, %s", e.gid_index, gid.data(), gid_type(e.gid_type));
  }
}

void add_port(text& out, ibv_context* context, std::uint8_t port) {
  ibv_port_attr a{};
  if (ibv_query_port(context, port, &a) != 0) return;
  out.line(2, "port:\t%u", static_cast<unsigned>(port));
  out.field(3, "state", state_name(a.state));
  out.field(3, "max_mtu", mtu(a.max_mtu));
  out.field(3, "active_mtu", mtu(a.active_mtu));
  out.number(3, "sm_lid", a.sm_lid);
  out.number(3, "port_lid", a.lid);
  out.field(3, "port_lmc", hex(a.lmc, 2));
  out.field(3, "link_layer", link_layer(a.link_layer));
  out.field(3, "max_msg_sz", hex(a.max_msg_sz, 1));
  out.field(3, "port_cap_flags", hex(a.port_cap_flags, 8));
  out.field(3, "port_cap_flags2", hex(a.port_cap_flags2, 4));
  out.field(3, "max_vl_num", vl_number(a.max_vl_num));
  out.field(3, "bad_pkey_cntr", hex(a.bad_pkey_cntr, 1));
  out.field(3, "qkey_viol_cntr", hex(a.qkey_viol_cntr, 1));
  out.number(3, "sm_sl", a.sm_sl);
  out.number(3, "pkey_tbl_len", a.pkey_tbl_len);
  out.number(3, "gid_tbl_len", static_cast<std::uint64_t>(a.gid_tbl_len));
  out.number(3, "subnet_timeout", a.subnet_timeout);
  out.number(3, "init_type_reply", a.init_type_reply);
  out.field(3, "active_width", width(a.active_width));
  out.field(3, "active_speed", speed(a.active_speed));
  if (a.link_layer == IBV_LINK_LAYER_ETHERNET || a.phys_state != 0) {
    out.field(3, "phys_state", physical_state(a.phys_state));
  }
  for (int i = 0; i < a.pkey_tbl_len; ++i) {
    __be16 key = 0;
    if (ibv_query_pkey(context, port, i, &key) != 0 || key == 0) continue;
    out.line(3, "PKey[%3d]:\t\t%s", i, hex(be16toh(key), 4).c_str());
  }
  add_gids(out, context, port);
}

void add_limits(text& out, const ibv_device_attr& a) {
  const std::initializer_list<std::pair<const char*, int>> limits{
      {"max_sge", a.max_sge},
      {"max_sge_rd", a.max_sge_rd},
      {"max_cq", a.max_cq},
      {"max_cqe", a.max_cqe},
      {"max_mr", a.max_mr},
      {"max_pd", a.max_pd},
      {"max_qp_rd_atom", a.max_qp_rd_atom},
      {"max_ee_rd_atom", a.max_ee_rd_atom},
      {"max_res_rd_atom", a.max_res_rd_atom},
      {"max_qp_init_rd_atom", a.max_qp_init_rd_atom},
      {"max_ee_init_rd_atom", a.max_ee_init_rd_atom}};
  for (const auto& [name, value] : limits) out.number(1, name, static_cast<std::uint64_t>(value));
  out.field(1, "atomic_cap", atomics(a.atomic_cap));
  const std::initializer_list<std::pair<const char*, int>> more{
      {"max_ee", a.max_ee},
      {"max_rdd", a.max_rdd},
      {"max_mw", a.max_mw},
      {"max_raw_ipv6_qp", a.max_raw_ipv6_qp},
      {"max_raw_ethy_qp", a.max_raw_ethy_qp},
      {"max_mcast_grp", a.max_mcast_grp},
      {"max_mcast_qp_attach", a.max_mcast_qp_attach},
      {"max_total_mcast_qp_attach", a.max_total_mcast_qp_attach},
      {"max_ah", a.max_ah},
      {"max_fmr", a.max_fmr},
      {"max_srq", a.max_srq},
      {"max_srq_wr", a.max_srq_wr},
      {"max_srq_sge", a.max_srq_sge},
      {"max_pkeys", a.max_pkeys},
      {"local_ca_ack_delay", a.local_ca_ack_delay}};
  for (const auto& [name, value] : more) out.number(1, name, static_cast<std::uint64_t>(value));
}

void add_paging(text& out, const ibv_device_attr_ex& x) {
  out.line(1, "general_odp_caps:");
  if ((x.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0) out.line(5, "ODP_SUPPORT");
  if ((x.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0)
    out.line(5, "ODP_SUPPORT_IMPLICIT");
  const auto& by_service = x.odp_caps.per_transport_caps;
  const std::initializer_list<std::pair<const char*, std::uint32_t>> services{
      {"rc_odp_caps:", by_service.rc_odp_caps},
      {"uc_odp_caps:", by_service.uc_odp_caps},
      {"ud_odp_caps:", by_service.ud_odp_caps},
      {"xrc_odp_caps:", x.xrc_odp_caps}};
  for (const auto& [name, bits] : services) {
    out.line(1, "%s", name);
    if (bits == 0) out.line(5, "NO SUPPORT");
    for (const bit_name& b : odp_bits) {
      if ((bits & b.bit) != 0) out.line(5, "%s", b.name);
    }
  }
}

void add_offloads(text& out, const ibv_device_attr_ex& x) {
  if (x.completion_timestamp_mask != 0) {
    out.field(1, "completion timestamp_mask", hex(x.completion_timestamp_mask, 16));
  } else {
    out.line(1, "completion_timestamp_mask not supported");
  }
  if (x.hca_core_clock != 0) {
    out.field(1, "hca_core_clock", std::to_string(x.hca_core_clock) + "kHZ");
  } else {
    out.line(1, "core clock not supported");
  }
  out.line(1, "device_cap_flags_ex:\t\t0x%llX",
           static_cast<unsigned long long>(x.device_cap_flags_ex));
  out.line(1, "tso_caps:");
  out.number(2, "max_tso", x.tso_caps.max_tso);
  out.line(1, "rss_caps:");
  out.number(2, "max_rwq_indirection_tables", x.rss_caps.max_rwq_indirection_tables);
  out.number(2, "max_rwq_indirection_table_size", x.rss_caps.max_rwq_indirection_table_size);
  out.field(2, "rx_hash_function", hex(x.rss_caps.rx_hash_function, 1));
  out.field(2, "rx_hash_fields_mask", hex(x.rss_caps.rx_hash_fields_mask, 1));
  out.number(1, "max_wq_type_rq", x.max_wq_type_rq);
  out.line(1, "packet_pacing_caps:");
  out.line(2, "qp_rate_limit_min:\t%ukbps", x.packet_pacing_caps.qp_rate_limit_min);
  out.line(2, "qp_rate_limit_max:\t%ukbps", x.packet_pacing_caps.qp_rate_limit_max);
  if (x.tm_caps.max_num_tags == 0) {
    out.line(1, "tag matching not supported");
  } else {
    out.number(1, "max_rndv_hdr_size", x.tm_caps.max_rndv_hdr_size);
    out.number(1, "max_num_tags", x.tm_caps.max_num_tags);
    out.number(1, "max_ops", x.tm_caps.max_ops);
    out.number(1, "max_sge", x.tm_caps.max_sge);
  }
}

const char* fork_rule() noexcept {
  switch (ibv_is_fork_initialized()) {
    case IBV_FORK_DISABLED: return "not safe: set RDMAV_FORK_SAFE=1";
    case IBV_FORK_ENABLED: return "safe, by marking registered pages";
    case IBV_FORK_UNNEEDED: return "safe, the kernel copies for the child";
  }
  return "?";
}

void add_extras(text& out, ibv_context* context) {
  out.line(1, "cordma:");
  for (const verbs::extra& e : verbs::ask_extras(context)) {
    out.field(2, e.name, !e.on_device ? "no" : e.offered ? "yes" : "on the device, not offered");
  }
  out.field(2, "fork", fork_rule());
}

// Empty where the driver does not say.
std::string board_of(const ibv_device& device) {
  std::ifstream file(std::string(device.ibdev_path) + "/board_id");
  std::string name;
  std::getline(file, name);
  return name;
}

void add_device(text& out, ibv_device* device) {
  out.line(0, "hca_id:\t%s", ibv_get_device_name(device));
  const owned<ibv_context> context(ibv_open_device(device));
  ibv_device_attr_ex x{};
  if (context == nullptr || ibv_query_device_ex(context.get(), nullptr, &x) != 0) {
    out.line(1, "cannot be opened: %s", std::strerror(errno));
    return;
  }
  const ibv_device_attr& a = x.orig_attr;
  out.field(1, "transport", transport_name(device->transport_type));
  out.field(1, "fw_ver", a.fw_ver);
  out.field(1, "node_guid", guid(a.node_guid));
  out.field(1, "sys_image_guid", guid(a.sys_image_guid));
  out.field(1, "vendor_id", hex(a.vendor_id, 4));
  out.number(1, "vendor_part_id", a.vendor_part_id);
  out.field(1, "hw_ver", hex(a.hw_ver, 1));
  const std::string board = board_of(*device);
  if (!board.empty()) out.field(1, "board_id", board);
  out.number(1, "phys_port_cnt", a.phys_port_cnt);
  out.field(1, "max_mr_size", hex(a.max_mr_size, 1));
  out.field(1, "page_size_cap", hex(a.page_size_cap, 1));
  out.number(1, "max_qp", static_cast<std::uint64_t>(a.max_qp));
  out.number(1, "max_qp_wr", static_cast<std::uint64_t>(a.max_qp_wr));
  out.field(1, "device_cap_flags", hex(a.device_cap_flags, 8));
  for (const bit_name& b : device_bits) {
    if ((a.device_cap_flags & b.bit) != 0) out.line(5, "%s", b.name);
  }
  add_limits(out, a);
  add_paging(out, x);
  add_offloads(out, x);
  out.number(1, "num_comp_vectors", static_cast<std::uint64_t>(context->num_comp_vectors));
  for (unsigned port = 1; port <= a.phys_port_cnt; ++port) {
    add_port(out, context.get(), static_cast<std::uint8_t>(port));
  }
  add_extras(out, context.get());
}

}  // namespace

std::string describe_rdma_devices() {
  text out;
  int count = 0;
  ibv_device** const all = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) add_device(out, all[i]);
  if (all != nullptr) ibv_free_device_list(all);
  return out.take();
}

}  // namespace cordma::transport
