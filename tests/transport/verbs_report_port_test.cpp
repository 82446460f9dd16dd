// The report of RDMA devices, of a port that is made up: whatever ibv_devinfo -v (rdma-core 44) would print of
// it, in that order. That Soft-RoCE's is the same is held in tests/verbs/settings_test.cpp. Needs no device.
#include <transport/verbs_report.hpp>

using namespace cordma::transport::verbs;
using namespace reported;

namespace {

ibv_gid_entry gid(std::uint32_t index, std::uint32_t type, const ibv_gid& at) {
  ibv_gid_entry e{};
  e.gid = at;
  e.gid_index = index;
  e.gid_type = type;
  return e;
}

constexpr ibv_gid link_local{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x2B, 0xC9, 0xFF, 0xFE, 1, 2, 3}};
constexpr ibv_gid mapped_v4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 77, 0, 1}};

port_facts port_of(std::uint8_t layer, ibv_transport_type transport) {
  port_facts p;
  p.number = 2;
  p.transport = transport;
  ibv_port_attr& a = p.attributes;
  a.state = IBV_PORT_ACTIVE;
  a.max_mtu = IBV_MTU_4096;
  a.active_mtu = IBV_MTU_1024;
  a.sm_lid = 1;
  a.lid = 49152;
  a.lmc = 3;
  a.link_layer = layer;
  a.max_msg_sz = 0x40000000;
  a.port_cap_flags = 0xA651E848;
  a.port_cap_flags2 = 0x32;
  a.max_vl_num = 4;
  a.bad_pkey_cntr = 10;
  a.qkey_viol_cntr = 11;
  a.sm_sl = 5;
  a.pkey_tbl_len = 128;
  a.gid_tbl_len = 8;
  a.subnet_timeout = 18;
  a.init_type_reply = 6;
  a.active_width = 2;
  a.active_speed = 64;
  a.phys_state = 5;
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

// What is said of a field that holds `value`.
struct saying {
  int value;
  const char* said;
};

// The field of the report says so, of each value of the attribute.
template <class T>
void is_said(const std::string& field, T ibv_port_attr::* attribute,
             const std::vector<saying>& all) {
  for (const saying& one : all) {
    CAPTURE(field);
    CAPTURE(one.value);
    port_facts p;
    p.attributes.*attribute = static_cast<T>(one.value);
    std::string said;
    for (const std::string& line : lines_of(report_of(p))) {
      if (line.starts_with(field + ":")) said = line.substr(field.size() + 2);
    }
    CHECK(said == one.said);
  }
}

}  // namespace

TEST_CASE("B4: of an InfiniBand port every line is reported, and its GIDs with all digits") {
  port_facts p = port_of(IBV_LINK_LAYER_INFINIBAND, IBV_TRANSPORT_IB);
  p.gids = {gid(0, IBV_GID_TYPE_IB, link_local)};
  are(lines_of(report_of(p)),
      lines_of_port("InfiniBand") +
          lines{"phys_state: LINK_UP (5)", "GID[ 0]: fe80:0000:0000:0000:022b:c9ff:fe01:0203", ""});
}

TEST_CASE("B4: of a RoCE port the GIDs are told apart by their version") {
  port_facts p = port_of(IBV_LINK_LAYER_ETHERNET, IBV_TRANSPORT_IB);
  p.gids = {gid(0, IBV_GID_TYPE_ROCE_V1, link_local), gid(1, IBV_GID_TYPE_ROCE_V2, link_local),
            gid(3, IBV_GID_TYPE_ROCE_V2, mapped_v4)};
  are(lines_of(report_of(p)),
      lines_of_port("Ethernet") + lines{"phys_state: LINK_UP (5)",
                                        "GID[ 0]: fe80:0000:0000:0000:022b:c9ff:fe01:0203, RoCE v1",
                                        "GID[ 1]: fe80::22b:c9ff:fe01:203, RoCE v2",
                                        "GID[ 3]: ::ffff:10.77.0.1, RoCE v2", ""});
}

TEST_CASE("B4: of a port of another transport the physical state is not reported") {
  are(lines_of(report_of(port_of(IBV_LINK_LAYER_UNSPECIFIED, IBV_TRANSPORT_USNIC_UDP))),
      lines_of_port("Unspecified") + lines{""});
}

TEST_CASE(
    "B4: every state, MTU and link layer of a port has its name, and others are told as such") {
  is_said("state", &ibv_port_attr::state,
          {{0, "invalid state (0)"},
           {1, "PORT_DOWN (1)"},
           {2, "PORT_INIT (2)"},
           {3, "PORT_ARMED (3)"},
           {4, "PORT_ACTIVE (4)"},
           {5, "invalid state (5)"}});
  const std::vector<saying> mtus{{0, "invalid MTU (0)"}, {1, "256 (1)"},  {2, "512 (2)"},
                                 {3, "1024 (3)"},        {4, "2048 (4)"}, {5, "4096 (5)"},
                                 {6, "invalid MTU (6)"}};
  is_said("max_mtu", &ibv_port_attr::max_mtu, mtus);
  is_said("active_mtu", &ibv_port_attr::active_mtu, mtus);
  is_said("phys_state", &ibv_port_attr::phys_state,
          {{0, "invalid physical state (0)"},
           {1, "SLEEP (1)"},
           {2, "POLLING (2)"},
           {3, "DISABLED (3)"},
           {4, "PORT_CONFIGURATION TRAINNING (4)"},
           {5, "LINK_UP (5)"},
           {6, "LINK_ERROR_RECOVERY (6)"},
           {7, "PHY TEST (7)"}});
  is_said("link_layer", &ibv_port_attr::link_layer,
          {{0, "Unspecified"}, {1, "InfiniBand"}, {2, "Ethernet"}, {3, "Unknown"}});
}

TEST_CASE(
    "B4: every width, speed and number of lanes of a port has its name, and others are invalid") {
  is_said("active_width", &ibv_port_attr::active_width,
          {{0, "invalid widthX (0)"},
           {1, "1X (1)"},
           {2, "4X (2)"},
           {4, "8X (4)"},
           {8, "12X (8)"},
           {16, "2X (16)"},
           {3, "invalid widthX (3)"}});
  is_said("active_speed", &ibv_port_attr::active_speed,
          {{0, "invalid speed (0)"},
           {1, "2.5 Gbps (1)"},
           {2, "5.0 Gbps (2)"},
           {4, "10.0 Gbps (4)"},
           {8, "10.0 Gbps (8)"},
           {16, "14.0 Gbps (16)"},
           {32, "25.0 Gbps (32)"},
           {64, "50.0 Gbps (64)"},
           {128, "100.0 Gbps (128)"}});
  is_said("max_vl_num", &ibv_port_attr::max_vl_num,
          {{0, "invalid value (0)"},
           {1, "1 (1)"},
           {2, "2 (2)"},
           {3, "4 (3)"},
           {4, "8 (4)"},
           {5, "15 (5)"},
           {6, "invalid value (6)"}});
}
