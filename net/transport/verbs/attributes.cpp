#include <cordma/net/transport/verbs/attributes.hpp>

#include <cordma/net/transport/verbs/device.hpp>

#include <endian.h>

#include <cstring>

namespace cordma::transport::verbs {
namespace {

// The names in device_attributes.hpp have the numbers of libibverbs.
template <class E>
constexpr bool is(E mine, std::uint64_t theirs) {
  return static_cast<std::uint64_t>(mine) == theirs;
}

static_assert(static_cast<int>(wire_protocol::unknown) == IBV_TRANSPORT_UNKNOWN &&
              is(wire_protocol::infiniband, IBV_TRANSPORT_IB) &&
              is(wire_protocol::iwarp, IBV_TRANSPORT_IWARP) &&
              is(wire_protocol::usnic, IBV_TRANSPORT_USNIC) &&
              is(wire_protocol::usnic_udp, IBV_TRANSPORT_USNIC_UDP) &&
              is(wire_protocol::unspecified, IBV_TRANSPORT_UNSPECIFIED));
static_assert(is(atomic_scope::none, IBV_ATOMIC_NONE) && is(atomic_scope::device, IBV_ATOMIC_HCA) &&
              is(atomic_scope::global, IBV_ATOMIC_GLOB));
static_assert(is(port_state::nop, IBV_PORT_NOP) && is(port_state::down, IBV_PORT_DOWN) &&
              is(port_state::init, IBV_PORT_INIT) && is(port_state::armed, IBV_PORT_ARMED) &&
              is(port_state::active, IBV_PORT_ACTIVE) &&
              is(port_state::active_defer, IBV_PORT_ACTIVE_DEFER));
static_assert(is(port_mtu::b256, IBV_MTU_256) && is(port_mtu::b512, IBV_MTU_512) &&
              is(port_mtu::b1024, IBV_MTU_1024) && is(port_mtu::b2048, IBV_MTU_2048) &&
              is(port_mtu::b4096, IBV_MTU_4096));
static_assert(is(port_link::unspecified, IBV_LINK_LAYER_UNSPECIFIED) &&
              is(port_link::infiniband, IBV_LINK_LAYER_INFINIBAND) &&
              is(port_link::ethernet, IBV_LINK_LAYER_ETHERNET));
static_assert(is(gid_type::infiniband, IBV_GID_TYPE_IB) &&
              is(gid_type::roce_v1, IBV_GID_TYPE_ROCE_V1) &&
              is(gid_type::roce_v2, IBV_GID_TYPE_ROCE_V2));

static_assert(is(device_flags::resize_max_wr, IBV_DEVICE_RESIZE_MAX_WR) &&
              is(device_flags::bad_pkey_cntr, IBV_DEVICE_BAD_PKEY_CNTR) &&
              is(device_flags::bad_qkey_cntr, IBV_DEVICE_BAD_QKEY_CNTR) &&
              is(device_flags::raw_multi, IBV_DEVICE_RAW_MULTI) &&
              is(device_flags::auto_path_mig, IBV_DEVICE_AUTO_PATH_MIG) &&
              is(device_flags::change_phy_port, IBV_DEVICE_CHANGE_PHY_PORT) &&
              is(device_flags::ud_av_port_enforce, IBV_DEVICE_UD_AV_PORT_ENFORCE) &&
              is(device_flags::curr_qp_state_mod, IBV_DEVICE_CURR_QP_STATE_MOD) &&
              is(device_flags::shutdown_port, IBV_DEVICE_SHUTDOWN_PORT) &&
              is(device_flags::init_type, IBV_DEVICE_INIT_TYPE) &&
              is(device_flags::port_active_event, IBV_DEVICE_PORT_ACTIVE_EVENT) &&
              is(device_flags::sys_image_guid, IBV_DEVICE_SYS_IMAGE_GUID));
static_assert(is(device_flags::rc_rnr_nak_gen, IBV_DEVICE_RC_RNR_NAK_GEN) &&
              is(device_flags::srq_resize, IBV_DEVICE_SRQ_RESIZE) &&
              is(device_flags::n_notify_cq, IBV_DEVICE_N_NOTIFY_CQ) &&
              is(device_flags::mem_window, IBV_DEVICE_MEM_WINDOW) &&
              is(device_flags::ud_ip_csum, IBV_DEVICE_UD_IP_CSUM) &&
              is(device_flags::xrc, IBV_DEVICE_XRC) &&
              is(device_flags::mem_mgt_extensions, IBV_DEVICE_MEM_MGT_EXTENSIONS) &&
              is(device_flags::mem_window_type_2a, IBV_DEVICE_MEM_WINDOW_TYPE_2A) &&
              is(device_flags::mem_window_type_2b, IBV_DEVICE_MEM_WINDOW_TYPE_2B) &&
              is(device_flags::rc_ip_csum, IBV_DEVICE_RC_IP_CSUM) &&
              is(device_flags::raw_ip_csum, IBV_DEVICE_RAW_IP_CSUM) &&
              is(device_flags::managed_flow_steering, IBV_DEVICE_MANAGED_FLOW_STEERING) &&
              is(device_flags::raw_scatter_fcs, IBV_DEVICE_RAW_SCATTER_FCS) &&
              is(device_flags::pci_write_end_padding, IBV_DEVICE_PCI_WRITE_END_PADDING));

static_assert(is(odp_support::parts, IBV_ODP_SUPPORT) &&
              is(odp_support::implicit, IBV_ODP_SUPPORT_IMPLICIT));
static_assert(is(odp_ops::send, IBV_ODP_SUPPORT_SEND) && is(odp_ops::recv, IBV_ODP_SUPPORT_RECV) &&
              is(odp_ops::write, IBV_ODP_SUPPORT_WRITE) &&
              is(odp_ops::read, IBV_ODP_SUPPORT_READ) &&
              is(odp_ops::atomic, IBV_ODP_SUPPORT_ATOMIC) &&
              is(odp_ops::srq_recv, IBV_ODP_SUPPORT_SRQ_RECV));
static_assert(is(raw_packet_ops::cvlan_stripping, IBV_RAW_PACKET_CAP_CVLAN_STRIPPING) &&
              is(raw_packet_ops::scatter_fcs, IBV_RAW_PACKET_CAP_SCATTER_FCS) &&
              is(raw_packet_ops::ip_csum, IBV_RAW_PACKET_CAP_IP_CSUM) &&
              is(raw_packet_ops::delay_drop, IBV_RAW_PACKET_CAP_DELAY_DROP));
static_assert(is(pair_types::rc, 1U << IBV_QPT_RC) && is(pair_types::uc, 1U << IBV_QPT_UC) &&
              is(pair_types::ud, 1U << IBV_QPT_UD) &&
              is(pair_types::raw_packet, 1U << IBV_QPT_RAW_PACKET));
static_assert(is(tag_flags::rc, IBV_TM_CAP_RC));

device_limits limits_of(const ibv_device_attr& a) {
  return {.max_mr_size = a.max_mr_size,
          .page_size_cap = a.page_size_cap,
          .max_mr = a.max_mr,
          .max_pd = a.max_pd,
          .max_mw = a.max_mw,
          .max_ah = a.max_ah,
          .max_qp = a.max_qp,
          .max_qp_wr = a.max_qp_wr,
          .max_sge = a.max_sge,
          .max_sge_rd = a.max_sge_rd,
          .max_cq = a.max_cq,
          .max_cqe = a.max_cqe,
          .max_srq = a.max_srq,
          .max_srq_wr = a.max_srq_wr,
          .max_srq_sge = a.max_srq_sge,
          .max_qp_rd_atom = a.max_qp_rd_atom,
          .max_res_rd_atom = a.max_res_rd_atom,
          .max_qp_init_rd_atom = a.max_qp_init_rd_atom,
          .max_ee = a.max_ee,
          .max_rdd = a.max_rdd,
          .max_ee_rd_atom = a.max_ee_rd_atom,
          .max_ee_init_rd_atom = a.max_ee_init_rd_atom,
          .max_raw_ipv6_qp = a.max_raw_ipv6_qp,
          .max_raw_ethy_qp = a.max_raw_ethy_qp,
          .max_mcast_grp = a.max_mcast_grp,
          .max_mcast_qp_attach = a.max_mcast_qp_attach,
          .max_total_mcast_qp_attach = a.max_total_mcast_qp_attach,
          .max_fmr = a.max_fmr,
          .max_map_per_fmr = a.max_map_per_fmr,
          .max_pkeys = a.max_pkeys};
}

device_offloads offloads_of(const ibv_device_attr_ex& x) {
  const auto& odp = x.odp_caps.per_transport_caps;
  return {.odp = odp_support{x.odp_caps.general_caps},
          .odp_rc = odp_ops{odp.rc_odp_caps},
          .odp_uc = odp_ops{odp.uc_odp_caps},
          .odp_ud = odp_ops{odp.ud_odp_caps},
          .odp_xrc = odp_ops{x.xrc_odp_caps},
          .completion_timestamp_mask = x.completion_timestamp_mask,
          .hca_core_clock = x.hca_core_clock,
          .raw_packet = raw_packet_ops{x.raw_packet_caps},
          .max_tso = x.tso_caps.max_tso,
          .tso_types = pair_types{x.tso_caps.supported_qpts},
          .rss_types = pair_types{x.rss_caps.supported_qpts},
          .pacing_types = pair_types{x.packet_pacing_caps.supported_qpts},
          .max_rwq_indirection_tables = x.rss_caps.max_rwq_indirection_tables,
          .max_rwq_indirection_table_size = x.rss_caps.max_rwq_indirection_table_size,
          .rx_hash_fields_mask = x.rss_caps.rx_hash_fields_mask,
          .rx_hash_function = x.rss_caps.rx_hash_function,
          .max_wq_type_rq = x.max_wq_type_rq,
          .qp_rate_limit_min = x.packet_pacing_caps.qp_rate_limit_min,
          .qp_rate_limit_max = x.packet_pacing_caps.qp_rate_limit_max,
          .tag_header_bytes = x.tm_caps.max_rndv_hdr_size,
          .max_tags = x.tm_caps.max_num_tags,
          .max_tag_ops = x.tm_caps.max_ops,
          .max_tag_sge = x.tm_caps.max_sge,
          .tags = tag_flags{x.tm_caps.flags},
          .max_cq_count = x.cq_mod_caps.max_cq_count,
          .max_cq_period = x.cq_mod_caps.max_cq_period,
          .max_dm_size = x.max_dm_size};
}

}  // namespace

device_attributes to_attributes(const ibv_device_attr_ex& x) {
  const ibv_device_attr& a = x.orig_attr;
  device_attributes d;
  d.fw_ver.assign(a.fw_ver, ::strnlen(a.fw_ver, sizeof a.fw_ver));
  d.node_guid = be64toh(a.node_guid);
  d.sys_image_guid = be64toh(a.sys_image_guid);
  d.vendor_id = a.vendor_id;
  d.vendor_part_id = a.vendor_part_id;
  d.hw_ver = a.hw_ver;
  d.flags = device_flags{a.device_cap_flags};
  d.extended_flags = device_flags{x.device_cap_flags_ex};
  d.atomic_cap = static_cast<atomic_scope>(a.atomic_cap);
  d.limits = limits_of(a);
  d.offloads = offloads_of(x);
  d.local_ca_ack_delay = a.local_ca_ack_delay;
  d.phys_port_cnt = a.phys_port_cnt;
  return d;
}

port_attributes to_attributes(const ibv_port_attr& a) {
  port_attributes p;
  p.state = static_cast<port_state>(a.state);
  p.max_mtu = static_cast<port_mtu>(a.max_mtu);
  p.active_mtu = static_cast<port_mtu>(a.active_mtu);
  p.link_layer = port_link{a.link_layer};
  p.lid = a.lid;
  p.sm_lid = a.sm_lid;
  p.lmc = a.lmc;
  p.sm_sl = a.sm_sl;
  p.subnet_timeout = a.subnet_timeout;
  p.init_type_reply = a.init_type_reply;
  p.max_msg_sz = a.max_msg_sz;
  p.port_cap_flags = a.port_cap_flags;
  p.port_cap_flags2 = a.port_cap_flags2;
  p.max_vl_num = virtual_lanes{a.max_vl_num};
  p.bad_pkey_cntr = a.bad_pkey_cntr;
  p.qkey_viol_cntr = a.qkey_viol_cntr;
  p.active_width = port_lanes{a.active_width};
  p.active_speed = lane_speed{a.active_speed};
  p.phys_state = physical_state{a.phys_state};
  p.pkey_tbl_len = a.pkey_tbl_len;
  p.gid_tbl_len = a.gid_tbl_len;
  return p;
}

port_gid to_attributes(const ibv_gid_entry& e) noexcept {
  return {.index = e.gid_index, .value = to_bytes(e.gid), .type = gid_type{e.gid_type}};
}

}  // namespace cordma::transport::verbs
