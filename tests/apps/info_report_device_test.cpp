// The report of a made-up RDMA device: the lines that ibv_devinfo -v (rdma-core 44) would print for
// it, in that order. info.sh checks that the report of Soft-RoCE is the same. Needs no device.
#include "info_report.hpp"

using namespace cordma;
using namespace info;
using namespace reported;

namespace {

device_attributes full_device() {
  device_attributes d;
  d.name = "nic0";
  d.transport = wire_protocol::iwarp;
  d.board_id = "MT_0000000223";
  d.num_comp_vectors = 63;
  d.fw_ver = "20.31.1014";
  d.node_guid = 0x0123456789ABCDEF;
  d.sys_image_guid = 0x0123456789ABCDE0;
  d.vendor_id = 0x2C9;
  d.vendor_part_id = 4123;
  d.hw_ver = 0xAB;
  d.flags = device_flags{0xFFFFFFFF};
  d.atomic_cap = atomic_scope::global;
  device_limits& l = d.limits;
  l.max_mr_size = ~0ULL;
  l.page_size_cap = 0xFFFFF000;
  int next = 1;
  for (int* limit : {&l.max_qp,
                     &l.max_qp_wr,
                     &l.max_sge,
                     &l.max_sge_rd,
                     &l.max_cq,
                     &l.max_cqe,
                     &l.max_mr,
                     &l.max_pd,
                     &l.max_qp_rd_atom,
                     &l.max_ee_rd_atom,
                     &l.max_res_rd_atom,
                     &l.max_qp_init_rd_atom,
                     &l.max_ee_init_rd_atom,
                     &l.max_ee,
                     &l.max_rdd,
                     &l.max_mw,
                     &l.max_raw_ipv6_qp,
                     &l.max_raw_ethy_qp,
                     &l.max_mcast_grp,
                     &l.max_mcast_qp_attach,
                     &l.max_total_mcast_qp_attach,
                     &l.max_ah,
                     &l.max_fmr,
                     &l.max_map_per_fmr,
                     &l.max_srq,
                     &l.max_srq_wr,
                     &l.max_srq_sge}) {
    *limit = next++;
  }
  l.max_cqe = -1;
  l.max_pkeys = 128;
  d.local_ca_ack_delay = 16;
  d.phys_port_cnt = 2;
  return d;
}

const lines lines_of_full_device{"hca_id: nic0",
                                 "transport: iWARP (1)",
                                 "fw_ver: 20.31.1014",
                                 "node_guid: 0123:4567:89ab:cdef",
                                 "sys_image_guid: 0123:4567:89ab:cde0",
                                 "vendor_id: 0x02c9",
                                 "vendor_part_id: 4123",
                                 "hw_ver: 0xAB",
                                 "board_id: MT_0000000223",
                                 "phys_port_cnt: 2",
                                 "max_mr_size: 0xffffffffffffffff",
                                 "page_size_cap: 0xfffff000",
                                 "max_qp: 1",
                                 "max_qp_wr: 2",
                                 "device_cap_flags: 0xffffffff",
                                 "RESIZE_MAX_WR",
                                 "BAD_PKEY_CNTR",
                                 "BAD_QKEY_CNTR",
                                 "RAW_MULTI",
                                 "AUTO_PATH_MIG",
                                 "CHANGE_PHY_PORT",
                                 "UD_AV_PORT_ENFORCE",
                                 "CURR_QP_STATE_MOD",
                                 "SHUTDOWN_PORT",
                                 "INIT_TYPE",
                                 "PORT_ACTIVE_EVENT",
                                 "SYS_IMAGE_GUID",
                                 "RC_RNR_NAK_GEN",
                                 "SRQ_RESIZE",
                                 "N_NOTIFY_CQ",
                                 "MEM_WINDOW",
                                 "UD_IP_CSUM",
                                 "XRC",
                                 "MEM_MGT_EXTENSIONS",
                                 "MEM_WINDOW_TYPE_2A",
                                 "MEM_WINDOW_TYPE_2B",
                                 "RC_IP_CSUM",
                                 "RAW_IP_CSUM",
                                 "MANAGED_FLOW_STEERING",
                                 "Unknown flags: 0xD8498000",
                                 "max_sge: 3",
                                 "max_sge_rd: 4",
                                 "max_cq: 5",
                                 "max_cqe: -1",
                                 "max_mr: 7",
                                 "max_pd: 8",
                                 "max_qp_rd_atom: 9",
                                 "max_ee_rd_atom: 10",
                                 "max_res_rd_atom: 11",
                                 "max_qp_init_rd_atom: 12",
                                 "max_ee_init_rd_atom: 13",
                                 "atomic_cap: ATOMIC_GLOB (2)",
                                 "max_ee: 14",
                                 "max_rdd: 15",
                                 "max_mw: 16",
                                 "max_raw_ipv6_qp: 17",
                                 "max_raw_ethy_qp: 18",
                                 "max_mcast_grp: 19",
                                 "max_mcast_qp_attach: 20",
                                 "max_total_mcast_qp_attach: 21",
                                 "max_ah: 22",
                                 "max_fmr: 23",
                                 "max_map_per_fmr: 24",
                                 "max_srq: 25",
                                 "max_srq_wr: 26",
                                 "max_srq_sge: 27",
                                 "max_pkeys: 128",
                                 "local_ca_ack_delay: 16"};

// The lines on the device's capabilities; for a device without any, only the lines on missing ones.
lines offloads_of(const device_attributes& d) { return lines_of(report_of_offloads(d)); }

}  // namespace

TEST_CASE("B4: of a device that has everything, every line is reported") {
  const device_attributes d = full_device();
  are(lines_of(report_of_device(d)),
      lines_of_full_device + offloads_of(d) + lines{"num_comp_vectors: 63"});
}

TEST_CASE("B4: of a device without firmware, board, FMRs and SRQs, their lines are not reported") {
  device_attributes d;
  d.name = "nic1";
  d.num_comp_vectors = 1;
  d.limits.max_map_per_fmr = 5;
  d.limits.max_srq_wr = 6;
  d.limits.max_srq_sge = 7;
  are(lines_of(report_of_device(d)), lines{"hca_id: nic1",
                                           "transport: InfiniBand (0)",
                                           "node_guid: 0000:0000:0000:0000",
                                           "sys_image_guid: 0000:0000:0000:0000",
                                           "vendor_id: 0x0000",
                                           "vendor_part_id: 0",
                                           "hw_ver: 0x0",
                                           "phys_port_cnt: 0",
                                           "max_mr_size: 0x0",
                                           "page_size_cap: 0x0",
                                           "max_qp: 0",
                                           "max_qp_wr: 0",
                                           "device_cap_flags: 0x00000000",
                                           "max_sge: 0",
                                           "max_sge_rd: 0",
                                           "max_cq: 0",
                                           "max_cqe: 0",
                                           "max_mr: 0",
                                           "max_pd: 0",
                                           "max_qp_rd_atom: 0",
                                           "max_ee_rd_atom: 0",
                                           "max_res_rd_atom: 0",
                                           "max_qp_init_rd_atom: 0",
                                           "max_ee_init_rd_atom: 0",
                                           "atomic_cap: ATOMIC_NONE (0)",
                                           "max_ee: 0",
                                           "max_rdd: 0",
                                           "max_mw: 0",
                                           "max_raw_ipv6_qp: 0",
                                           "max_raw_ethy_qp: 0",
                                           "max_mcast_grp: 0",
                                           "max_mcast_qp_attach: 0",
                                           "max_total_mcast_qp_attach: 0",
                                           "max_ah: 0",
                                           "max_fmr: 0",
                                           "max_srq: 0",
                                           "max_pkeys: 0",
                                           "local_ca_ack_delay: 0"} +
                                         offloads_of(d) + lines{"num_comp_vectors: 1"});
}

TEST_CASE(
    "B4: a transport and atomics that are unknown are said to be invalid, with their number") {
  device_attributes d;
  d.transport = wire_protocol::unknown;
  d.atomic_cap = atomic_scope{3};
  const lines all = lines_of(report_of_device(d));
  CHECK(std::ranges::count(all, "transport: invalid transport (-1)") == 1);
  CHECK(std::ranges::count(all, "atomic_cap: invalid atomic capability (3)") == 1);
}
