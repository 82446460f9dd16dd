// A port: its link and its addresses.
#include <cordma/net/transport/verbs/report.hpp>
#include <cordma/net/transport/verbs/report_lines.hpp>

#include <arpa/inet.h>

#include <array>
#include <cstdio>

namespace cordma::transport::verbs {
namespace {

constexpr std::array states{
    value_name{IBV_PORT_DOWN, "PORT_DOWN"}, value_name{IBV_PORT_INIT, "PORT_INIT"},
    value_name{IBV_PORT_ARMED, "PORT_ARMED"}, value_name{IBV_PORT_ACTIVE, "PORT_ACTIVE"}};

constexpr std::array mtus{value_name{IBV_MTU_256, "256"}, value_name{IBV_MTU_512, "512"},
                          value_name{IBV_MTU_1024, "1024"}, value_name{IBV_MTU_2048, "2048"},
                          value_name{IBV_MTU_4096, "4096"}};

constexpr std::array lanes{value_name{1, "1"}, value_name{2, "2"}, value_name{3, "4"},
                           value_name{4, "8"}, value_name{5, "15"}};

constexpr std::array widths{value_name{1, "1X"}, value_name{2, "4X"}, value_name{4, "8X"},
                            value_name{8, "12X"}, value_name{16, "2X"}};

constexpr std::array speeds{value_name{1, "2.5 Gbps"},   value_name{2, "5.0 Gbps"},
                            value_name{4, "10.0 Gbps"},  value_name{8, "10.0 Gbps"},
                            value_name{16, "14.0 Gbps"}, value_name{32, "25.0 Gbps"},
                            value_name{64, "50.0 Gbps"}, value_name{128, "100.0 Gbps"}};

// The fourth is spelled so.
constexpr std::array physical_states{
    value_name{1, "SLEEP"},    value_name{2, "POLLING"},
    value_name{3, "DISABLED"}, value_name{4, "PORT_CONFIGURATION TRAINNING"},
    value_name{5, "LINK_UP"},  value_name{6, "LINK_ERROR_RECOVERY"},
    value_name{7, "PHY TEST"}};

const char* link_layer(std::uint8_t l) noexcept {
  switch (l) {
    case IBV_LINK_LAYER_UNSPECIFIED: return "Unspecified";
    case IBV_LINK_LAYER_INFINIBAND: return "InfiniBand";
    case IBV_LINK_LAYER_ETHERNET: return "Ethernet";
    default: return "Unknown";
  }
}

// Of RoCE v2, whose GIDs are IP addresses, as such; any other with all its digits.
std::string gid_text(const ibv_gid_entry& e, std::uint8_t layer) {
  if (e.gid_type == IBV_GID_TYPE_ROCE_V2) {
    std::array<char, INET6_ADDRSTRLEN> address{};
    inet_ntop(AF_INET6, e.gid.raw, address.data(), address.size());
    return address.data() + std::string(", RoCE v2");
  }
  std::string text;
  for (std::size_t i = 0; i < sizeof e.gid.raw; i += 2) {
    std::array<char, 8> part{};
    std::snprintf(part.data(), part.size(), "%s%02x%02x", i == 0 ? "" : ":",
                  static_cast<unsigned>(e.gid.raw[i]), static_cast<unsigned>(e.gid.raw[i + 1]));
    text += part.data();
  }
  return text + (layer == IBV_LINK_LAYER_ETHERNET ? ", RoCE v1" : "");
}

void add_link(report_lines& out, const ibv_port_attr& a, ibv_transport_type transport) {
  out.field(3, "max_msg_sz", hex(a.max_msg_sz));
  out.field(3, "port_cap_flags", hex(a.port_cap_flags, 8));
  out.field(3, "port_cap_flags2", hex(a.port_cap_flags2, 4));
  out.field(3, "max_vl_num", named(a.max_vl_num, lanes, "invalid value"));
  out.field(3, "bad_pkey_cntr", hex(a.bad_pkey_cntr));
  out.field(3, "qkey_viol_cntr", hex(a.qkey_viol_cntr));
  out.number(3, "sm_sl", a.sm_sl);
  out.number(3, "pkey_tbl_len", a.pkey_tbl_len);
  out.number(3, "gid_tbl_len", a.gid_tbl_len);
  out.number(3, "subnet_timeout", a.subnet_timeout);
  out.number(3, "init_type_reply", a.init_type_reply);
  out.field(3, "active_width", named(a.active_width, widths, "invalid widthX"));
  out.field(3, "active_speed", named(a.active_speed, speeds, "invalid speed"));
  if (transport == IBV_TRANSPORT_IB) {
    out.field(3, "phys_state", named(a.phys_state, physical_states, "invalid physical state"));
  }
}

}  // namespace

std::string report_of(const port_facts& p) {
  const ibv_port_attr& a = p.attributes;
  report_lines out;
  out.line(2, "port:\t%u", p.number);
  out.field(3, "state", named(a.state, states, "invalid state"));
  out.field(3, "max_mtu", named(a.max_mtu, mtus, "invalid MTU"));
  out.field(3, "active_mtu", named(a.active_mtu, mtus, "invalid MTU"));
  out.number(3, "sm_lid", a.sm_lid);
  out.number(3, "port_lid", a.lid);
  out.field(3, "port_lmc", hex(a.lmc, 2));
  out.field(3, "link_layer", link_layer(a.link_layer));
  add_link(out, a, p.transport);
  for (const ibv_gid_entry& e : p.gids) {
    out.line(3, "GID[%3u]:\t\t%s", e.gid_index, gid_text(e, a.link_layer).c_str());
  }
  out.line(0, "%s", "");
  return out.take();
}

}  // namespace cordma::transport::verbs
