// The report of a made-up RDMA device's capabilities: the lines that ibv_devinfo -v (rdma-core 44)
// would print for it, in that order. info.sh checks that the report of Soft-RoCE is the same. Needs
// no device.
#include "info_report.hpp"

using namespace cordma;
using namespace info;
using namespace reported;

namespace {

constexpr pair_types raw_and_ud{1U << 8 | 1U << 4};
constexpr pair_types raw_ud_and_rc{1U << 8 | 1U << 4 | 1U << 2};

device_attributes able() {
  device_attributes d;
  d.extended_flags = device_flags{0x1E00000001};
  d.offloads = {.odp = odp_support{1ULL << 40 | 3},
                .odp_rc = odp_ops{0x3F},
                .odp_uc = odp_ops::send,
                .odp_ud = odp_ops{0x82},
                .odp_xrc = odp_ops::srq_recv,
                .completion_timestamp_mask = 0x7FFFFFFFFFFFFFF,
                .hca_core_clock = 1000000,
                .raw_packet = raw_packet_ops{0xF},
                .max_tso = 262144,
                .tso_types = raw_ud_and_rc,
                .rss_types = raw_ud_and_rc,
                .pacing_types = raw_ud_and_rc,
                .max_rwq_indirection_tables = 1048576,
                .max_rwq_indirection_table_size = 2048,
                .rx_hash_fields_mask = 0x800000FF,
                .rx_hash_function = 0x1,
                .max_wq_type_rq = 8388608,
                .qp_rate_limit_min = 1,
                .qp_rate_limit_max = 100000000,
                .tag_header_bytes = 64,
                .max_tags = 127,
                .max_tag_ops = 32768,
                .max_tag_sge = 4,
                .tags = tag_flags::rc,
                .max_cq_count = 65535,
                .max_cq_period = 4095,
                .max_dm_size = 131072};
  return d;
}

const lines lines_of_able{"general_odp_caps:",
                          "ODP_SUPPORT",
                          "ODP_SUPPORT_IMPLICIT",
                          "Unknown flags: 0x10000000000",
                          "rc_odp_caps:",
                          "SUPPORT_SEND",
                          "SUPPORT_RECV",
                          "SUPPORT_WRITE",
                          "SUPPORT_READ",
                          "SUPPORT_ATOMIC",
                          "SUPPORT_SRQ",
                          "uc_odp_caps:",
                          "SUPPORT_SEND",
                          "ud_odp_caps:",
                          "SUPPORT_RECV",
                          "Unknown flags: 0x80",
                          "xrc_odp_caps:",
                          "SUPPORT_SRQ",
                          "completion timestamp_mask: 0x07ffffffffffffff",
                          "hca_core_clock: 1000000kHZ",
                          "raw packet caps:",
                          "C-VLAN stripping offload",
                          "Scatter FCS offload",
                          "IP csum offload",
                          "Delay drop",
                          "device_cap_flags_ex: 0x1E00000001",
                          "RAW_SCATTER_FCS",
                          "PCI_WRITE_END_PADDING",
                          "Unknown flags: 0xA00000000",
                          "tso_caps:",
                          "max_tso: 262144",
                          "supported_qp:",
                          "SUPPORT_RAW_PACKET",
                          "SUPPORT_UD",
                          "Unknown flags: 0x4",
                          "rss_caps:",
                          "max_rwq_indirection_tables: 1048576",
                          "max_rwq_indirection_table_size: 2048",
                          "rx_hash_function: 0x1",
                          "rx_hash_fields_mask: 0x800000FF",
                          "supported_qp:",
                          "SUPPORT_RAW_PACKET",
                          "SUPPORT_UD",
                          "Unknown flags: 0x4",
                          "max_wq_type_rq: 8388608",
                          "packet_pacing_caps:",
                          "qp_rate_limit_min: 1kbps",
                          "qp_rate_limit_max: 100000000kbps",
                          "supported_qp:",
                          "SUPPORT_RAW_PACKET",
                          "SUPPORT_UD",
                          "Unknown flags: 0x4",
                          "max_rndv_hdr_size: 64",
                          "max_num_tags: 127",
                          "max_ops: 32768",
                          "max_sge: 4",
                          "flags:",
                          "IBV_TM_CAP_RC",
                          "cq moderation caps:",
                          "max_cq_count: 65535",
                          "max_cq_period: 4095 us",
                          "maximum available device memory: 131072Bytes"};

const lines lines_of_unable{"general_odp_caps:",
                            "rc_odp_caps:",
                            "NO SUPPORT",
                            "uc_odp_caps:",
                            "NO SUPPORT",
                            "ud_odp_caps:",
                            "NO SUPPORT",
                            "xrc_odp_caps:",
                            "NO SUPPORT",
                            "completion_timestamp_mask not supported",
                            "core clock not supported",
                            "device_cap_flags_ex: 0x0",
                            "tso_caps:",
                            "max_tso: 0",
                            "rss_caps:",
                            "max_rwq_indirection_tables: 0",
                            "max_rwq_indirection_table_size: 0",
                            "rx_hash_function: 0x0",
                            "rx_hash_fields_mask: 0x0",
                            "max_wq_type_rq: 0",
                            "packet_pacing_caps:",
                            "qp_rate_limit_min: 0kbps",
                            "qp_rate_limit_max: 0kbps",
                            "tag matching not supported"};

}  // namespace

TEST_CASE("B4: of what a device can do every part is reported, with what has no name") {
  are(lines_of(report_of_offloads(able())), lines_of_able);
}

TEST_CASE("B4: what a device cannot do is not reported, but for what is said not to be there") {
  are(lines_of(report_of_offloads({})), lines_of_unable);
}

TEST_CASE(
    "B4: moderation without a count or a period, and pacing without a rate, are not reported") {
  device_attributes d;
  device_offloads& o = d.offloads;
  o.pacing_types = raw_and_ud;
  o.tso_types = raw_and_ud;
  o.tags = tag_flags::rc;
  o.max_cq_count = 1;
  are(lines_of(report_of_offloads(d)), lines_of_unable);
  o.max_cq_count = 0;
  o.max_cq_period = 1;
  are(lines_of(report_of_offloads(d)), lines_of_unable);
}
