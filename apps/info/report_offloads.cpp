// Features of some devices only: on-demand paging, clocks, offloads, tag matching, device memory.
#include "report.hpp"
#include "report_lines.hpp"

#include <array>
#include <initializer_list>

namespace info {
namespace {

using namespace cordma;

constexpr std::array paging_bits{bit_name{odp_support::parts, "ODP_SUPPORT"},
                                 bit_name{odp_support::implicit, "ODP_SUPPORT_IMPLICIT"}};

constexpr std::array odp_bits{
    bit_name{odp_ops::send, "SUPPORT_SEND"},     bit_name{odp_ops::recv, "SUPPORT_RECV"},
    bit_name{odp_ops::write, "SUPPORT_WRITE"},   bit_name{odp_ops::read, "SUPPORT_READ"},
    bit_name{odp_ops::atomic, "SUPPORT_ATOMIC"}, bit_name{odp_ops::srq_recv, "SUPPORT_SRQ"}};

constexpr std::array raw_packet_bits{
    bit_name{raw_packet_ops::cvlan_stripping, "C-VLAN stripping offload"},
    bit_name{raw_packet_ops::scatter_fcs, "Scatter FCS offload"},
    bit_name{raw_packet_ops::ip_csum, "IP csum offload"},
    bit_name{raw_packet_ops::delay_drop, "Delay drop"}};

// The bits of the lower half are device_cap_flags and are named there.
constexpr std::uint64_t extended_half = 0xFFFFFFFF00000000;
constexpr std::array extended_bits{
    bit_name{device_flags::raw_scatter_fcs, "RAW_SCATTER_FCS"},
    bit_name{device_flags::pci_write_end_padding, "PCI_WRITE_END_PADDING"}};

constexpr std::array queue_pair_bits{bit_name{pair_types::raw_packet, "SUPPORT_RAW_PACKET"},
                                     bit_name{pair_types::ud, "SUPPORT_UD"}};

constexpr std::array tag_bits{bit_name{tag_flags::rc, "IBV_TM_CAP_RC"}};

void add_paging(report_lines& out, const device_offloads& o) {
  out.line(1, "general_odp_caps:");
  out.flags(o.odp, paging_bits);
  const std::initializer_list<std::pair<const char*, odp_ops>> services{
      {"rc_odp_caps:", o.odp_rc},
      {"uc_odp_caps:", o.odp_uc},
      {"ud_odp_caps:", o.odp_ud},
      {"xrc_odp_caps:", o.odp_xrc}};
  for (const auto& [name, bits] : services) {
    out.line(1, "%s", name);
    if (bits == odp_ops{}) out.line(5, "NO SUPPORT");
    out.flags(bits, odp_bits);
  }
}

void add_clock(report_lines& out, const device_offloads& o) {
  if (o.completion_timestamp_mask != 0) {
    out.field(1, "completion timestamp_mask", hex(o.completion_timestamp_mask, 16));
  } else {
    out.line(1, "completion_timestamp_mask not supported");
  }
  if (o.hca_core_clock != 0) {
    out.field(1, "hca_core_clock", std::to_string(o.hca_core_clock) + "kHZ");
  } else {
    out.line(1, "core clock not supported");
  }
}

void add_queue_pairs(report_lines& out, pair_types types) {
  out.line(2, "supported_qp:");
  out.flags(types, queue_pair_bits);
}

void add_packets(report_lines& out, const device_attributes& d) {
  const device_offloads& o = d.offloads;
  if (o.raw_packet != raw_packet_ops{}) {
    out.line(1, "raw packet caps:");
    out.flags(o.raw_packet, raw_packet_bits);
  }
  const auto flags = static_cast<std::uint64_t>(d.extended_flags);
  out.field(1, "device_cap_flags_ex", upper_hex(flags));
  out.flags(flags & extended_half, extended_bits);
  out.line(1, "tso_caps:");
  out.number(2, "max_tso", o.max_tso);
  if (o.max_tso != 0) add_queue_pairs(out, o.tso_types);
  out.line(1, "rss_caps:");
  const auto rss = [&out](const char* name, const std::string& value) {
    out.field_at(48, 2, name, value);
  };
  rss("max_rwq_indirection_tables", std::to_string(o.max_rwq_indirection_tables));
  rss("max_rwq_indirection_table_size", std::to_string(o.max_rwq_indirection_table_size));
  rss("rx_hash_function", hex(o.rx_hash_function));
  rss("rx_hash_fields_mask", upper_hex(o.rx_hash_fields_mask));
  if (o.rss_types != pair_types{}) add_queue_pairs(out, o.rss_types);
  out.number(1, "max_wq_type_rq", o.max_wq_type_rq);
  out.line(1, "packet_pacing_caps:");
  out.line(2, "qp_rate_limit_min:\t%ukbps", o.qp_rate_limit_min);
  out.line(2, "qp_rate_limit_max:\t%ukbps", o.qp_rate_limit_max);
  if (o.qp_rate_limit_max != 0) add_queue_pairs(out, o.pacing_types);
}

void add_tags(report_lines& out, const device_offloads& o) {
  if (o.max_tags == 0) {
    out.line(1, "tag matching not supported");
    return;
  }
  out.number(1, "max_rndv_hdr_size", o.tag_header_bytes);
  out.number(1, "max_num_tags", o.max_tags);
  out.number(1, "max_ops", o.max_tag_ops);
  out.number(1, "max_sge", o.max_tag_sge);
  out.line(1, "flags:");
  out.flags(o.tags, tag_bits);
}

void add_moderation(report_lines& out, const device_offloads& o) {
  if (o.max_cq_count == 0 || o.max_cq_period == 0) return;
  out.line(1, "cq moderation caps:");
  out.line(2, "max_cq_count:\t%u", static_cast<unsigned>(o.max_cq_count));
  out.line(2, "max_cq_period:\t%u us", static_cast<unsigned>(o.max_cq_period));
}

}  // namespace

std::string report_of_offloads(const device_attributes& d) {
  const device_offloads& o = d.offloads;
  report_lines out;
  add_paging(out, o);
  add_clock(out, o);
  add_packets(out, d);
  add_tags(out, o);
  add_moderation(out, o);
  if (o.max_dm_size != 0) {
    out.field(1, "maximum available device memory", std::to_string(o.max_dm_size) + "Bytes");
  }
  return out.take();
}

}  // namespace info
