// The report of RDMA devices, of what devices can do that are made up: whatever ibv_devinfo -v (rdma-core 44) would print of
// it, in that order. That Soft-RoCE's is the same is held in tests/verbs/settings_test.cpp. Needs no device.
#include <transport/verbs_report.hpp>

using namespace cordma::transport::verbs;
using namespace reported;

namespace {

constexpr std::uint32_t raw_and_ud = 1U << IBV_QPT_RAW_PACKET | 1U << IBV_QPT_UD;
constexpr std::uint32_t rc = 1U << IBV_QPT_RC;

ibv_device_attr_ex able() {
  ibv_device_attr_ex x{};
  x.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT | 1ULL << 40;
  x.odp_caps.per_transport_caps = {0x3F, IBV_ODP_SUPPORT_SEND, 0x80 | IBV_ODP_SUPPORT_RECV};
  x.xrc_odp_caps = IBV_ODP_SUPPORT_SRQ_RECV;
  x.completion_timestamp_mask = 0x7FFFFFFFFFFFFFF;
  x.hca_core_clock = 1000000;
  x.raw_packet_caps = 0xF;
  x.device_cap_flags_ex = 0x1A00000001 | IBV_DEVICE_RAW_SCATTER_FCS;
  x.tso_caps = {262144, raw_and_ud | rc};
  x.rss_caps = {raw_and_ud | rc, 1048576, 2048, 0x800000FF, 0x1};
  x.max_wq_type_rq = 8388608;
  x.packet_pacing_caps.qp_rate_limit_min = 1;
  x.packet_pacing_caps.qp_rate_limit_max = 100000000;
  x.packet_pacing_caps.supported_qpts = raw_and_ud | rc;
  x.tm_caps = {64, 127, IBV_TM_CAP_RC, 32768, 4};
  x.cq_mod_caps = {65535, 4095};
  x.max_dm_size = 131072;
  return x;
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
  are(lines_of(report_of_abilities(able())), lines_of_able);
}

TEST_CASE("B4: what a device cannot do is not reported, but for what is said not to be there") {
  are(lines_of(report_of_abilities({})), lines_of_unable);
}

TEST_CASE(
    "B4: moderation without a count or a period, and pacing without a rate, are not reported") {
  ibv_device_attr_ex x{};
  x.packet_pacing_caps.supported_qpts = raw_and_ud;
  x.tso_caps.supported_qpts = raw_and_ud;
  x.tm_caps.flags = IBV_TM_CAP_RC;
  x.cq_mod_caps.max_cq_count = 1;
  are(lines_of(report_of_abilities(x)), lines_of_unable);
  x.cq_mod_caps = {0, 1};
  are(lines_of(report_of_abilities(x)), lines_of_unable);
}
