// A device: who made it, and how much it takes.
#include <cordma/net/transport/verbs/report.hpp>
#include <cordma/net/transport/verbs/report_lines.hpp>

#include <endian.h>

#include <array>
#include <cstdio>

namespace cordma::transport::verbs {
namespace {

constexpr std::array transports{
    value_name{IBV_TRANSPORT_IB, "InfiniBand"}, value_name{IBV_TRANSPORT_IWARP, "iWARP"},
    value_name{IBV_TRANSPORT_USNIC, "usNIC"}, value_name{IBV_TRANSPORT_USNIC_UDP, "usNIC UDP"},
    value_name{IBV_TRANSPORT_UNSPECIFIED, "unspecified"}};

constexpr std::array atomics{value_name{IBV_ATOMIC_NONE, "ATOMIC_NONE"},
                             value_name{IBV_ATOMIC_HCA, "ATOMIC_HCA"},
                             value_name{IBV_ATOMIC_GLOB, "ATOMIC_GLOB"}};

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

struct limit {
  const char* name;
  int ibv_device_attr::* value;
};

constexpr std::array limits{limit{"max_sge", &ibv_device_attr::max_sge},
                            limit{"max_sge_rd", &ibv_device_attr::max_sge_rd},
                            limit{"max_cq", &ibv_device_attr::max_cq},
                            limit{"max_cqe", &ibv_device_attr::max_cqe},
                            limit{"max_mr", &ibv_device_attr::max_mr},
                            limit{"max_pd", &ibv_device_attr::max_pd},
                            limit{"max_qp_rd_atom", &ibv_device_attr::max_qp_rd_atom},
                            limit{"max_ee_rd_atom", &ibv_device_attr::max_ee_rd_atom},
                            limit{"max_res_rd_atom", &ibv_device_attr::max_res_rd_atom},
                            limit{"max_qp_init_rd_atom", &ibv_device_attr::max_qp_init_rd_atom},
                            limit{"max_ee_init_rd_atom", &ibv_device_attr::max_ee_init_rd_atom}};

constexpr std::array limits_after_atomics{
    limit{"max_ee", &ibv_device_attr::max_ee},
    limit{"max_rdd", &ibv_device_attr::max_rdd},
    limit{"max_mw", &ibv_device_attr::max_mw},
    limit{"max_raw_ipv6_qp", &ibv_device_attr::max_raw_ipv6_qp},
    limit{"max_raw_ethy_qp", &ibv_device_attr::max_raw_ethy_qp},
    limit{"max_mcast_grp", &ibv_device_attr::max_mcast_grp},
    limit{"max_mcast_qp_attach", &ibv_device_attr::max_mcast_qp_attach},
    limit{"max_total_mcast_qp_attach", &ibv_device_attr::max_total_mcast_qp_attach},
    limit{"max_ah", &ibv_device_attr::max_ah},
    limit{"max_fmr", &ibv_device_attr::max_fmr}};

std::string guid(__be64 raw) {
  const std::uint64_t v = be64toh(raw);
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "%04x:%04x:%04x:%04x",
                static_cast<unsigned>(v >> 48 & 0xFFFF), static_cast<unsigned>(v >> 32 & 0xFFFF),
                static_cast<unsigned>(v >> 16 & 0xFFFF), static_cast<unsigned>(v & 0xFFFF));
  return room.data();
}

void add_maker(report_lines& out, const device_facts& d) {
  const ibv_device_attr& a = d.attributes.orig_attr;
  out.line(0, "hca_id:\t%s", d.name.c_str());
  out.field(1, "transport", named(d.transport, transports, "invalid transport"));
  if (a.fw_ver[0] != '\0') out.field(1, "fw_ver", a.fw_ver);
  out.field(1, "node_guid", guid(a.node_guid));
  out.field(1, "sys_image_guid", guid(a.sys_image_guid));
  out.field(1, "vendor_id", hex(a.vendor_id, 4));
  out.number(1, "vendor_part_id", a.vendor_part_id);
  out.field(1, "hw_ver", upper_hex(a.hw_ver));
  if (!d.board.empty()) out.field(1, "board_id", d.board);
}

void add_limits(report_lines& out, const ibv_device_attr& a) {
  for (const limit& l : limits) out.number(1, l.name, a.*l.value);
  out.field(1, "atomic_cap", named(a.atomic_cap, atomics, "invalid atomic capability"));
  for (const limit& l : limits_after_atomics) out.number(1, l.name, a.*l.value);
  if (a.max_fmr != 0) out.number(1, "max_map_per_fmr", a.max_map_per_fmr);
  out.number(1, "max_srq", a.max_srq);
  if (a.max_srq != 0) {
    out.number(1, "max_srq_wr", a.max_srq_wr);
    out.number(1, "max_srq_sge", a.max_srq_sge);
  }
  out.number(1, "max_pkeys", a.max_pkeys);
  out.number(1, "local_ca_ack_delay", a.local_ca_ack_delay);
}

}  // namespace

std::string report_of(const device_facts& d) {
  const ibv_device_attr& a = d.attributes.orig_attr;
  report_lines out;
  add_maker(out, d);
  out.number(1, "phys_port_cnt", a.phys_port_cnt);
  out.field(1, "max_mr_size", hex(a.max_mr_size));
  out.field(1, "page_size_cap", hex(a.page_size_cap));
  out.number(1, "max_qp", a.max_qp);
  out.number(1, "max_qp_wr", a.max_qp_wr);
  out.field(1, "device_cap_flags", hex(a.device_cap_flags, 8));
  out.flags(a.device_cap_flags, device_bits);
  add_limits(out, a);
  out.append(report_of_abilities(d.attributes));
  out.number(1, "num_comp_vectors", d.completion_vectors);
  return out.take();
}

}  // namespace cordma::transport::verbs
