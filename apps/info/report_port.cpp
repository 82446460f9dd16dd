// A port: its link and its addresses.
#include "report.hpp"
#include "report_lines.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdio>

namespace info {
namespace {

using namespace cordma;

constexpr std::array states{
    value_name{port_state::down, "PORT_DOWN"}, value_name{port_state::init, "PORT_INIT"},
    value_name{port_state::armed, "PORT_ARMED"}, value_name{port_state::active, "PORT_ACTIVE"}};

constexpr std::array mtus{value_name{port_mtu::b256, "256"}, value_name{port_mtu::b512, "512"},
                          value_name{port_mtu::b1024, "1024"}, value_name{port_mtu::b2048, "2048"},
                          value_name{port_mtu::b4096, "4096"}};

constexpr std::array lanes{value_name{virtual_lanes::one, "1"}, value_name{virtual_lanes::two, "2"},
                           value_name{virtual_lanes::four, "4"},
                           value_name{virtual_lanes::eight, "8"},
                           value_name{virtual_lanes::fifteen, "15"}};

constexpr std::array widths{value_name{port_lanes::x1, "1X"}, value_name{port_lanes::x4, "4X"},
                            value_name{port_lanes::x8, "8X"}, value_name{port_lanes::x12, "12X"},
                            value_name{port_lanes::x2, "2X"}};

constexpr std::array speeds{
    value_name{lane_speed::sdr, "2.5 Gbps"},  value_name{lane_speed::ddr, "5.0 Gbps"},
    value_name{lane_speed::qdr, "10.0 Gbps"}, value_name{lane_speed::fdr10, "10.0 Gbps"},
    value_name{lane_speed::fdr, "14.0 Gbps"}, value_name{lane_speed::edr, "25.0 Gbps"},
    value_name{lane_speed::hdr, "50.0 Gbps"}, value_name{lane_speed::ndr, "100.0 Gbps"}};

// The fourth name is misspelled in ibv_devinfo, too.
constexpr std::array physical_states{
    value_name{physical_state::sleep, "SLEEP"},
    value_name{physical_state::polling, "POLLING"},
    value_name{physical_state::disabled, "DISABLED"},
    value_name{physical_state::training, "PORT_CONFIGURATION TRAINNING"},
    value_name{physical_state::link_up, "LINK_UP"},
    value_name{physical_state::error_recovery, "LINK_ERROR_RECOVERY"},
    value_name{physical_state::phy_test, "PHY TEST"}};

const char* link_layer(port_link l) noexcept {
  switch (l) {
    case port_link::unspecified: return "Unspecified";
    case port_link::infiniband: return "InfiniBand";
    case port_link::ethernet: return "Ethernet";
  }
  return "Unknown";
}

// A GID of RoCE v2 is an IP address and is shown as such; any other is shown with all digits.
std::string gid_text(const port_gid& g, port_link layer) {
  if (g.type == gid_type::roce_v2) {
    std::array<char, INET6_ADDRSTRLEN> address{};
    inet_ntop(AF_INET6, g.value.data(), address.data(), address.size());
    return address.data() + std::string(", RoCE v2");
  }
  std::string text;
  for (std::size_t i = 0; i < g.value.size(); i += 2) {
    std::array<char, 8> part{};
    std::snprintf(part.data(), part.size(), "%s%02x%02x", i == 0 ? "" : ":",
                  std::to_integer<unsigned>(g.value[i]), std::to_integer<unsigned>(g.value[i + 1]));
    text += part.data();
  }
  return text + (layer == port_link::ethernet ? ", RoCE v1" : "");
}

void add_link(report_lines& out, const port_attributes& p, wire_protocol transport) {
  out.field(3, "max_msg_sz", hex(p.max_msg_sz));
  out.field(3, "port_cap_flags", hex(p.port_cap_flags, 8));
  out.field(3, "port_cap_flags2", hex(p.port_cap_flags2, 4));
  out.field(3, "max_vl_num", named(p.max_vl_num, lanes, "invalid value"));
  out.field(3, "bad_pkey_cntr", hex(p.bad_pkey_cntr));
  out.field(3, "qkey_viol_cntr", hex(p.qkey_viol_cntr));
  out.number(3, "sm_sl", p.sm_sl);
  out.number(3, "pkey_tbl_len", p.pkey_tbl_len);
  out.number(3, "gid_tbl_len", p.gid_tbl_len);
  out.number(3, "subnet_timeout", p.subnet_timeout);
  out.number(3, "init_type_reply", p.init_type_reply);
  out.field(3, "active_width", named(p.active_width, widths, "invalid widthX"));
  out.field(3, "active_speed", named(p.active_speed, speeds, "invalid speed"));
  if (transport == wire_protocol::infiniband) {
    out.field(3, "phys_state", named(p.phys_state, physical_states, "invalid physical state"));
  }
}

}  // namespace

std::string report_of_port(const port_attributes& p, wire_protocol transport) {
  report_lines out;
  if (p.failed) {
    out.line(2, "port:\t%u cannot be asked: %s", p.number, p.failed->message().c_str());
    return out.take();
  }
  out.line(2, "port:\t%u", p.number);
  out.field(3, "state", named(p.state, states, "invalid state"));
  out.field(3, "max_mtu", named(p.max_mtu, mtus, "invalid MTU"));
  out.field(3, "active_mtu", named(p.active_mtu, mtus, "invalid MTU"));
  out.number(3, "sm_lid", p.sm_lid);
  out.number(3, "port_lid", p.lid);
  out.field(3, "port_lmc", hex(p.lmc, 2));
  out.field(3, "link_layer", link_layer(p.link_layer));
  add_link(out, p, transport);
  for (const port_gid& g : p.gids) {
    out.line(3, "GID[%3u]:\t\t%s", g.index, gid_text(g, p.link_layer).c_str());
  }
  out.line(0, "%s", "");
  return out.take();
}

}  // namespace info
