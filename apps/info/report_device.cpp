// A device: its manufacturer and its limits.
#include "report.hpp"
#include "report_lines.hpp"

#include <array>
#include <cstdio>

namespace info {
namespace {

using namespace cordma;

constexpr std::array transports{
    value_name{wire_protocol::infiniband, "InfiniBand"}, value_name{wire_protocol::iwarp, "iWARP"},
    value_name{wire_protocol::usnic, "usNIC"}, value_name{wire_protocol::usnic_udp, "usNIC UDP"},
    value_name{wire_protocol::unspecified, "unspecified"}};

constexpr std::array atomics{value_name{atomic_scope::none, "ATOMIC_NONE"},
                             value_name{atomic_scope::device, "ATOMIC_HCA"},
                             value_name{atomic_scope::global, "ATOMIC_GLOB"}};

constexpr std::array device_bits{
    bit_name{device_flags::resize_max_wr, "RESIZE_MAX_WR"},
    bit_name{device_flags::bad_pkey_cntr, "BAD_PKEY_CNTR"},
    bit_name{device_flags::bad_qkey_cntr, "BAD_QKEY_CNTR"},
    bit_name{device_flags::raw_multi, "RAW_MULTI"},
    bit_name{device_flags::auto_path_mig, "AUTO_PATH_MIG"},
    bit_name{device_flags::change_phy_port, "CHANGE_PHY_PORT"},
    bit_name{device_flags::ud_av_port_enforce, "UD_AV_PORT_ENFORCE"},
    bit_name{device_flags::curr_qp_state_mod, "CURR_QP_STATE_MOD"},
    bit_name{device_flags::shutdown_port, "SHUTDOWN_PORT"},
    bit_name{device_flags::init_type, "INIT_TYPE"},
    bit_name{device_flags::port_active_event, "PORT_ACTIVE_EVENT"},
    bit_name{device_flags::sys_image_guid, "SYS_IMAGE_GUID"},
    bit_name{device_flags::rc_rnr_nak_gen, "RC_RNR_NAK_GEN"},
    bit_name{device_flags::srq_resize, "SRQ_RESIZE"},
    bit_name{device_flags::n_notify_cq, "N_NOTIFY_CQ"},
    bit_name{device_flags::mem_window, "MEM_WINDOW"},
    bit_name{device_flags::ud_ip_csum, "UD_IP_CSUM"},
    bit_name{device_flags::xrc, "XRC"},
    bit_name{device_flags::mem_mgt_extensions, "MEM_MGT_EXTENSIONS"},
    bit_name{device_flags::mem_window_type_2a, "MEM_WINDOW_TYPE_2A"},
    bit_name{device_flags::mem_window_type_2b, "MEM_WINDOW_TYPE_2B"},
    bit_name{device_flags::rc_ip_csum, "RC_IP_CSUM"},
    bit_name{device_flags::raw_ip_csum, "RAW_IP_CSUM"},
    bit_name{device_flags::managed_flow_steering, "MANAGED_FLOW_STEERING"}};

struct limit {
  const char* name;
  int device_limits::* value;
};

constexpr std::array limits{limit{"max_sge", &device_limits::max_sge},
                            limit{"max_sge_rd", &device_limits::max_sge_rd},
                            limit{"max_cq", &device_limits::max_cq},
                            limit{"max_cqe", &device_limits::max_cqe},
                            limit{"max_mr", &device_limits::max_mr},
                            limit{"max_pd", &device_limits::max_pd},
                            limit{"max_qp_rd_atom", &device_limits::max_qp_rd_atom},
                            limit{"max_ee_rd_atom", &device_limits::max_ee_rd_atom},
                            limit{"max_res_rd_atom", &device_limits::max_res_rd_atom},
                            limit{"max_qp_init_rd_atom", &device_limits::max_qp_init_rd_atom},
                            limit{"max_ee_init_rd_atom", &device_limits::max_ee_init_rd_atom}};

constexpr std::array limits_after_atomics{
    limit{"max_ee", &device_limits::max_ee},
    limit{"max_rdd", &device_limits::max_rdd},
    limit{"max_mw", &device_limits::max_mw},
    limit{"max_raw_ipv6_qp", &device_limits::max_raw_ipv6_qp},
    limit{"max_raw_ethy_qp", &device_limits::max_raw_ethy_qp},
    limit{"max_mcast_grp", &device_limits::max_mcast_grp},
    limit{"max_mcast_qp_attach", &device_limits::max_mcast_qp_attach},
    limit{"max_total_mcast_qp_attach", &device_limits::max_total_mcast_qp_attach},
    limit{"max_ah", &device_limits::max_ah},
    limit{"max_fmr", &device_limits::max_fmr}};

std::string guid_text(std::uint64_t v) {
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "%04x:%04x:%04x:%04x",
                static_cast<unsigned>(v >> 48 & 0xFFFF), static_cast<unsigned>(v >> 32 & 0xFFFF),
                static_cast<unsigned>(v >> 16 & 0xFFFF), static_cast<unsigned>(v & 0xFFFF));
  return room.data();
}

void add_maker(report_lines& out, const device_attributes& d) {
  out.line(0, "hca_id:\t%s", d.name.c_str());
  out.field(1, "transport", named(d.transport, transports, "invalid transport"));
  if (!d.fw_ver.empty()) out.field(1, "fw_ver", d.fw_ver);
  out.field(1, "node_guid", guid_text(d.node_guid));
  out.field(1, "sys_image_guid", guid_text(d.sys_image_guid));
  out.field(1, "vendor_id", hex(d.vendor_id, 4));
  out.number(1, "vendor_part_id", d.vendor_part_id);
  out.field(1, "hw_ver", upper_hex(d.hw_ver));
  if (!d.board_id.empty()) out.field(1, "board_id", d.board_id);
}

void add_limits(report_lines& out, const device_attributes& d) {
  const device_limits& l = d.limits;
  for (const limit& one : limits) out.number(1, one.name, l.*one.value);
  out.field(1, "atomic_cap", named(d.atomic_cap, atomics, "invalid atomic capability"));
  for (const limit& one : limits_after_atomics) out.number(1, one.name, l.*one.value);
  if (l.max_fmr != 0) out.number(1, "max_map_per_fmr", l.max_map_per_fmr);
  out.number(1, "max_srq", l.max_srq);
  if (l.max_srq != 0) {
    out.number(1, "max_srq_wr", l.max_srq_wr);
    out.number(1, "max_srq_sge", l.max_srq_sge);
  }
  out.number(1, "max_pkeys", l.max_pkeys);
  out.number(1, "local_ca_ack_delay", d.local_ca_ack_delay);
}

}  // namespace

std::string report_of_device(const device_attributes& d) {
  report_lines out;
  add_maker(out, d);
  out.number(1, "phys_port_cnt", d.phys_port_cnt);
  out.field(1, "max_mr_size", hex(d.limits.max_mr_size));
  out.field(1, "page_size_cap", hex(d.limits.page_size_cap));
  out.number(1, "max_qp", d.limits.max_qp);
  out.number(1, "max_qp_wr", d.limits.max_qp_wr);
  out.field(1, "device_cap_flags", hex(static_cast<std::uint64_t>(d.flags), 8));
  out.flags(d.flags, device_bits);
  add_limits(out, d);
  out.append(report_of_offloads(d));
  out.number(1, "num_comp_vectors", d.num_comp_vectors);
  return out.take();
}

}  // namespace info
