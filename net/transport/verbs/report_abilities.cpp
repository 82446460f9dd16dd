// What some devices can do and others cannot: paging on demand, clocks, offloads, tag matching, memory of
// their own.
#include <cordma/net/transport/verbs/report.hpp>
#include <cordma/net/transport/verbs/report_lines.hpp>

#include <array>
#include <initializer_list>

namespace cordma::transport::verbs {
namespace {

constexpr std::array paging_bits{bit_name{IBV_ODP_SUPPORT, "ODP_SUPPORT"},
                                 bit_name{IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT"}};

constexpr std::array odp_bits{bit_name{IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND"},
                              bit_name{IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV"},
                              bit_name{IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE"},
                              bit_name{IBV_ODP_SUPPORT_READ, "SUPPORT_READ"},
                              bit_name{IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC"},
                              bit_name{IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ"}};

constexpr std::array raw_packet_bits{
    bit_name{IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload"},
    bit_name{IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload"},
    bit_name{IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload"},
    bit_name{IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop"}};

// Those of the lower half are device_cap_flags, and named there.
constexpr std::uint64_t extended_half = 0xFFFFFFFF00000000;
constexpr std::array extended_bits{
    bit_name{IBV_DEVICE_RAW_SCATTER_FCS, "RAW_SCATTER_FCS"},
    bit_name{IBV_DEVICE_PCI_WRITE_END_PADDING, "PCI_WRITE_END_PADDING"}};

constexpr std::array queue_pair_bits{bit_name{1U << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET"},
                                     bit_name{1U << IBV_QPT_UD, "SUPPORT_UD"}};

constexpr std::array tag_bits{bit_name{IBV_TM_CAP_RC, "IBV_TM_CAP_RC"}};

void add_paging(report_lines& out, const ibv_device_attr_ex& x) {
  out.line(1, "general_odp_caps:");
  out.flags(x.odp_caps.general_caps, paging_bits);
  const auto& by_service = x.odp_caps.per_transport_caps;
  const std::initializer_list<std::pair<const char*, std::uint32_t>> services{
      {"rc_odp_caps:", by_service.rc_odp_caps},
      {"uc_odp_caps:", by_service.uc_odp_caps},
      {"ud_odp_caps:", by_service.ud_odp_caps},
      {"xrc_odp_caps:", x.xrc_odp_caps}};
  for (const auto& [name, bits] : services) {
    out.line(1, "%s", name);
    if (bits == 0) out.line(5, "NO SUPPORT");
    out.flags(bits, odp_bits);
  }
}

void add_clock(report_lines& out, const ibv_device_attr_ex& x) {
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
}

void add_queue_pairs(report_lines& out, std::uint32_t types) {
  out.line(2, "supported_qp:");
  out.flags(types, queue_pair_bits);
}

void add_packets(report_lines& out, const ibv_device_attr_ex& x) {
  if (x.raw_packet_caps != 0) {
    out.line(1, "raw packet caps:");
    out.flags(x.raw_packet_caps, raw_packet_bits);
  }
  out.field(1, "device_cap_flags_ex", upper_hex(x.device_cap_flags_ex));
  out.flags(x.device_cap_flags_ex & extended_half, extended_bits);
  out.line(1, "tso_caps:");
  out.number(2, "max_tso", x.tso_caps.max_tso);
  if (x.tso_caps.max_tso != 0) add_queue_pairs(out, x.tso_caps.supported_qpts);
  out.line(1, "rss_caps:");
  const auto rss = [&out](const char* name, const std::string& value) {
    out.field_at(48, 2, name, value);
  };
  rss("max_rwq_indirection_tables", std::to_string(x.rss_caps.max_rwq_indirection_tables));
  rss("max_rwq_indirection_table_size", std::to_string(x.rss_caps.max_rwq_indirection_table_size));
  rss("rx_hash_function", hex(x.rss_caps.rx_hash_function));
  rss("rx_hash_fields_mask", upper_hex(x.rss_caps.rx_hash_fields_mask));
  if (x.rss_caps.supported_qpts != 0) add_queue_pairs(out, x.rss_caps.supported_qpts);
  out.number(1, "max_wq_type_rq", x.max_wq_type_rq);
  const ibv_packet_pacing_caps& pacing = x.packet_pacing_caps;
  out.line(1, "packet_pacing_caps:");
  out.line(2, "qp_rate_limit_min:\t%ukbps", pacing.qp_rate_limit_min);
  out.line(2, "qp_rate_limit_max:\t%ukbps", pacing.qp_rate_limit_max);
  if (pacing.qp_rate_limit_max != 0) add_queue_pairs(out, pacing.supported_qpts);
}

void add_tags(report_lines& out, const ibv_tm_caps& tags) {
  if (tags.max_num_tags == 0) {
    out.line(1, "tag matching not supported");
    return;
  }
  out.number(1, "max_rndv_hdr_size", tags.max_rndv_hdr_size);
  out.number(1, "max_num_tags", tags.max_num_tags);
  out.number(1, "max_ops", tags.max_ops);
  out.number(1, "max_sge", tags.max_sge);
  out.line(1, "flags:");
  out.flags(tags.flags, tag_bits);
}

void add_moderation(report_lines& out, const ibv_cq_moderation_caps& most) {
  if (most.max_cq_count == 0 || most.max_cq_period == 0) return;
  out.line(1, "cq moderation caps:");
  out.line(2, "max_cq_count:\t%u", static_cast<unsigned>(most.max_cq_count));
  out.line(2, "max_cq_period:\t%u us", static_cast<unsigned>(most.max_cq_period));
}

}  // namespace

std::string report_of_abilities(const ibv_device_attr_ex& x) {
  report_lines out;
  add_paging(out, x);
  add_clock(out, x);
  add_packets(out, x);
  add_tags(out, x.tm_caps);
  add_moderation(out, x.cq_mod_caps);
  if (x.max_dm_size != 0) {
    out.field(1, "maximum available device memory", std::to_string(x.max_dm_size) + "Bytes");
  }
  return out.take();
}

}  // namespace cordma::transport::verbs
