// Compares a device's attributes with the structures of libibverbs that they come from, field by
// field.
#pragma once

#include <doctest/doctest.h>

#include <cordma/net/device_attributes.hpp>

#include <infiniband/verbs.h>

#include <endian.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace cordma::test {

// The number of an enum value.
template <class T>
std::uint64_t bits(T value) {
  return static_cast<std::uint64_t>(value);
}

inline void check_same(const device_limits& l, const ibv_device_attr& a) {
  CHECK(l.max_mr_size == a.max_mr_size);
  CHECK(l.page_size_cap == a.page_size_cap);
  CHECK(l.max_mr == a.max_mr);
  CHECK(l.max_pd == a.max_pd);
  CHECK(l.max_mw == a.max_mw);
  CHECK(l.max_ah == a.max_ah);
  CHECK(l.max_qp == a.max_qp);
  CHECK(l.max_qp_wr == a.max_qp_wr);
  CHECK(l.max_sge == a.max_sge);
  CHECK(l.max_sge_rd == a.max_sge_rd);
  CHECK(l.max_cq == a.max_cq);
  CHECK(l.max_cqe == a.max_cqe);
  CHECK(l.max_srq == a.max_srq);
  CHECK(l.max_srq_wr == a.max_srq_wr);
  CHECK(l.max_srq_sge == a.max_srq_sge);
  CHECK(l.max_qp_rd_atom == a.max_qp_rd_atom);
  CHECK(l.max_res_rd_atom == a.max_res_rd_atom);
  CHECK(l.max_qp_init_rd_atom == a.max_qp_init_rd_atom);
  CHECK(l.max_ee == a.max_ee);
  CHECK(l.max_rdd == a.max_rdd);
  CHECK(l.max_ee_rd_atom == a.max_ee_rd_atom);
  CHECK(l.max_ee_init_rd_atom == a.max_ee_init_rd_atom);
  CHECK(l.max_raw_ipv6_qp == a.max_raw_ipv6_qp);
  CHECK(l.max_raw_ethy_qp == a.max_raw_ethy_qp);
  CHECK(l.max_mcast_grp == a.max_mcast_grp);
  CHECK(l.max_mcast_qp_attach == a.max_mcast_qp_attach);
  CHECK(l.max_total_mcast_qp_attach == a.max_total_mcast_qp_attach);
  CHECK(l.max_fmr == a.max_fmr);
  CHECK(l.max_map_per_fmr == a.max_map_per_fmr);
  CHECK(l.max_pkeys == a.max_pkeys);
}

inline void check_same(const device_offloads& o, const ibv_device_attr_ex& x) {
  CHECK(bits(o.odp) == x.odp_caps.general_caps);
  CHECK(bits(o.odp_rc) == x.odp_caps.per_transport_caps.rc_odp_caps);
  CHECK(bits(o.odp_uc) == x.odp_caps.per_transport_caps.uc_odp_caps);
  CHECK(bits(o.odp_ud) == x.odp_caps.per_transport_caps.ud_odp_caps);
  CHECK(bits(o.odp_xrc) == x.xrc_odp_caps);
  CHECK(o.completion_timestamp_mask == x.completion_timestamp_mask);
  CHECK(o.hca_core_clock == x.hca_core_clock);
  CHECK(bits(o.raw_packet) == x.raw_packet_caps);
  CHECK(o.max_tso == x.tso_caps.max_tso);
  CHECK(bits(o.tso_types) == x.tso_caps.supported_qpts);
  CHECK(bits(o.rss_types) == x.rss_caps.supported_qpts);
  CHECK(bits(o.pacing_types) == x.packet_pacing_caps.supported_qpts);
  CHECK(o.max_rwq_indirection_tables == x.rss_caps.max_rwq_indirection_tables);
  CHECK(o.max_rwq_indirection_table_size == x.rss_caps.max_rwq_indirection_table_size);
  CHECK(o.rx_hash_fields_mask == x.rss_caps.rx_hash_fields_mask);
  CHECK(o.rx_hash_function == x.rss_caps.rx_hash_function);
  CHECK(o.max_wq_type_rq == x.max_wq_type_rq);
  CHECK(o.qp_rate_limit_min == x.packet_pacing_caps.qp_rate_limit_min);
  CHECK(o.qp_rate_limit_max == x.packet_pacing_caps.qp_rate_limit_max);
  CHECK(o.tag_header_bytes == x.tm_caps.max_rndv_hdr_size);
  CHECK(o.max_tags == x.tm_caps.max_num_tags);
  CHECK(o.max_tag_ops == x.tm_caps.max_ops);
  CHECK(o.max_tag_sge == x.tm_caps.max_sge);
  CHECK(bits(o.tags) == x.tm_caps.flags);
  CHECK(o.max_cq_count == x.cq_mod_caps.max_cq_count);
  CHECK(o.max_cq_period == x.cq_mod_caps.max_cq_period);
  CHECK(o.max_dm_size == x.max_dm_size);
}

inline void check_same(const device_attributes& d, const ibv_device_attr_ex& x) {
  const ibv_device_attr& a = x.orig_attr;
  CHECK(d.fw_ver == std::string(a.fw_ver, ::strnlen(a.fw_ver, sizeof a.fw_ver)));
  CHECK(d.node_guid == be64toh(a.node_guid));
  CHECK(d.sys_image_guid == be64toh(a.sys_image_guid));
  CHECK(d.vendor_id == a.vendor_id);
  CHECK(d.vendor_part_id == a.vendor_part_id);
  CHECK(d.hw_ver == a.hw_ver);
  CHECK(bits(d.flags) == a.device_cap_flags);
  CHECK(bits(d.extended_flags) == x.device_cap_flags_ex);
  CHECK(bits(d.atomic_cap) == bits(a.atomic_cap));
  CHECK(d.local_ca_ack_delay == a.local_ca_ack_delay);
  CHECK(d.phys_port_cnt == a.phys_port_cnt);
  check_same(d.limits, a);
  check_same(d.offloads, x);
}

inline void check_same(const port_attributes& p, const ibv_port_attr& a) {
  CHECK(bits(p.state) == bits(a.state));
  CHECK(bits(p.max_mtu) == bits(a.max_mtu));
  CHECK(bits(p.active_mtu) == bits(a.active_mtu));
  CHECK(bits(p.link_layer) == a.link_layer);
  CHECK(p.lid == a.lid);
  CHECK(p.sm_lid == a.sm_lid);
  CHECK(p.lmc == a.lmc);
  CHECK(p.sm_sl == a.sm_sl);
  CHECK(p.subnet_timeout == a.subnet_timeout);
  CHECK(p.init_type_reply == a.init_type_reply);
  CHECK(p.max_msg_sz == a.max_msg_sz);
  CHECK(p.port_cap_flags == a.port_cap_flags);
  CHECK(p.port_cap_flags2 == a.port_cap_flags2);
  CHECK(bits(p.max_vl_num) == a.max_vl_num);
  CHECK(p.bad_pkey_cntr == a.bad_pkey_cntr);
  CHECK(p.qkey_viol_cntr == a.qkey_viol_cntr);
  CHECK(bits(p.active_width) == a.active_width);
  CHECK(bits(p.active_speed) == a.active_speed);
  CHECK(bits(p.phys_state) == a.phys_state);
  CHECK(p.pkey_tbl_len == a.pkey_tbl_len);
  CHECK(p.gid_tbl_len == a.gid_tbl_len);
}

inline void check_same(const port_gid& g, const ibv_gid_entry& e) {
  CHECK(g.index == e.gid_index);
  CHECK(std::memcmp(g.value.data(), e.gid.raw, sizeof e.gid.raw) == 0);
  CHECK(bits(g.type) == e.gid_type);
}

}  // namespace cordma::test
