// The report of a made-up port of an RDMA device: the lines that ibv_devinfo -v (rdma-core 44)
// would print for it, in that order. info.sh checks that the report of Soft-RoCE is the same. Needs
// no device.
#include "info_report.hpp"

#include <cordma/net/device_list.hpp>

using namespace cordma;
using namespace info;
using namespace reported;

namespace {

port_gid gid_at(unsigned index, gid_type type, const char* text) {
  return {.index = index, .value = parse_gid(text).value(), .type = type};
}

constexpr const char* link_local = "fe80::22b:c9ff:fe01:203";

port_attributes port_of(port_link layer) {
  port_attributes p;
  p.number = 2;
  p.state = port_state::active;
  p.max_mtu = port_mtu::b4096;
  p.active_mtu = port_mtu::b1024;
  p.sm_lid = 1;
  p.lid = 49152;
  p.lmc = 3;
  p.link_layer = layer;
  p.max_msg_sz = 0x40000000;
  p.port_cap_flags = 0xA651E848;
  p.port_cap_flags2 = 0x32;
  p.max_vl_num = virtual_lanes::eight;
  p.bad_pkey_cntr = 10;
  p.qkey_viol_cntr = 11;
  p.sm_sl = 5;
  p.pkey_tbl_len = 128;
  p.gid_tbl_len = 8;
  p.subnet_timeout = 18;
  p.init_type_reply = 6;
  p.active_width = port_lanes::x4;
  p.active_speed = lane_speed::hdr;
  p.phys_state = physical_state::link_up;
  return p;
}

lines lines_of_port(const char* layer) {
  return {"port: 2",
          "state: PORT_ACTIVE (4)",
          "max_mtu: 4096 (5)",
          "active_mtu: 1024 (3)",
          "sm_lid: 1",
          "port_lid: 49152",
          "port_lmc: 0x03",
          std::string("link_layer: ") + layer,
          "max_msg_sz: 0x40000000",
          "port_cap_flags: 0xa651e848",
          "port_cap_flags2: 0x0032",
          "max_vl_num: 8 (4)",
          "bad_pkey_cntr: 0xa",
          "qkey_viol_cntr: 0xb",
          "sm_sl: 5",
          "pkey_tbl_len: 128",
          "gid_tbl_len: 8",
          "subnet_timeout: 18",
          "init_type_reply: 6",
          "active_width: 4X (2)",
          "active_speed: 50.0 Gbps (64)"};
}

// A value of a field and the text that the report prints for it.
struct saying {
  int value;
  const char* said;
};

// Checks the report's text for each value of the attribute.
template <class T>
void is_said(const std::string& field, T port_attributes::* attribute,
             const std::vector<saying>& all) {
  for (const saying& one : all) {
    CAPTURE(field);
    CAPTURE(one.value);
    port_attributes p;
    p.*attribute = static_cast<T>(one.value);
    std::string said;
    for (const std::string& line : lines_of(report_of_port(p, wire_protocol::infiniband))) {
      if (line.starts_with(field + ":")) said = line.substr(field.size() + 2);
    }
    CHECK(said == one.said);
  }
}

}  // namespace

TEST_CASE("B4: of an InfiniBand port every line is reported, and its GIDs with all digits") {
  port_attributes p = port_of(port_link::infiniband);
  p.gids = {gid_at(0, gid_type::infiniband, link_local)};
  are(lines_of(report_of_port(p, wire_protocol::infiniband)),
      lines_of_port("InfiniBand") +
          lines{"phys_state: LINK_UP (5)", "GID[ 0]: fe80:0000:0000:0000:022b:c9ff:fe01:0203", ""});
}

TEST_CASE("B4: of a RoCE port the GIDs are told apart by their version") {
  port_attributes p = port_of(port_link::ethernet);
  p.gids = {gid_at(0, gid_type::roce_v1, link_local), gid_at(1, gid_type::roce_v2, link_local),
            gid_at(3, gid_type::roce_v2, "10.77.0.1")};
  are(lines_of(report_of_port(p, wire_protocol::infiniband)),
      lines_of_port("Ethernet") + lines{"phys_state: LINK_UP (5)",
                                        "GID[ 0]: fe80:0000:0000:0000:022b:c9ff:fe01:0203, RoCE v1",
                                        "GID[ 1]: fe80::22b:c9ff:fe01:203, RoCE v2",
                                        "GID[ 3]: ::ffff:10.77.0.1, RoCE v2", ""});
}

TEST_CASE("B4: of a port of another transport the physical state is not reported") {
  are(lines_of(report_of_port(port_of(port_link::unspecified), wire_protocol::usnic_udp)),
      lines_of_port("Unspecified") + lines{""});
}

TEST_CASE(
    "B4: every state, MTU and link layer of a port has its name, and others are told as such") {
  is_said("state", &port_attributes::state,
          {{0, "invalid state (0)"},
           {1, "PORT_DOWN (1)"},
           {2, "PORT_INIT (2)"},
           {3, "PORT_ARMED (3)"},
           {4, "PORT_ACTIVE (4)"},
           {5, "invalid state (5)"}});
  const std::vector<saying> mtus{{0, "invalid MTU (0)"}, {1, "256 (1)"},  {2, "512 (2)"},
                                 {3, "1024 (3)"},        {4, "2048 (4)"}, {5, "4096 (5)"},
                                 {6, "invalid MTU (6)"}};
  is_said("max_mtu", &port_attributes::max_mtu, mtus);
  is_said("active_mtu", &port_attributes::active_mtu, mtus);
  is_said("phys_state", &port_attributes::phys_state,
          {{0, "invalid physical state (0)"},
           {1, "SLEEP (1)"},
           {2, "POLLING (2)"},
           {3, "DISABLED (3)"},
           {4, "PORT_CONFIGURATION TRAINNING (4)"},
           {5, "LINK_UP (5)"},
           {6, "LINK_ERROR_RECOVERY (6)"},
           {7, "PHY TEST (7)"}});
  is_said("link_layer", &port_attributes::link_layer,
          {{0, "Unspecified"}, {1, "InfiniBand"}, {2, "Ethernet"}, {3, "Unknown"}});
}

TEST_CASE(
    "B4: every width, speed and number of lanes of a port has its name, and others are invalid") {
  is_said("active_width", &port_attributes::active_width,
          {{0, "invalid widthX (0)"},
           {1, "1X (1)"},
           {2, "4X (2)"},
           {4, "8X (4)"},
           {8, "12X (8)"},
           {16, "2X (16)"},
           {3, "invalid widthX (3)"}});
  is_said("active_speed", &port_attributes::active_speed,
          {{0, "invalid speed (0)"},
           {1, "2.5 Gbps (1)"},
           {2, "5.0 Gbps (2)"},
           {4, "10.0 Gbps (4)"},
           {8, "10.0 Gbps (8)"},
           {16, "14.0 Gbps (16)"},
           {32, "25.0 Gbps (32)"},
           {64, "50.0 Gbps (64)"},
           {128, "100.0 Gbps (128)"}});
  is_said("max_vl_num", &port_attributes::max_vl_num,
          {{0, "invalid value (0)"},
           {1, "1 (1)"},
           {2, "2 (2)"},
           {3, "4 (3)"},
           {4, "8 (4)"},
           {5, "15 (5)"},
           {6, "invalid value (6)"}});
}

TEST_CASE("B4: a port that cannot be read is reported with the reason") {
  port_attributes p;
  p.number = 3;
  p.failed = failure(errc::driver, "out of order");
  are(lines_of(report_of_port(p, wire_protocol::infiniband)),
      {"port: 3 cannot be asked: out of order"});
}
