// query_devices(): the attributes of this machine's RDMA devices, without types of libibverbs.
// device_list::snapshot() finds devices and their GIDs without opening them.
#pragma once

#include <cordma/net/transport/device_attributes.hpp>

namespace cordma {

using transport::atomic_scope, transport::fork_safety, transport::wire_protocol;
using transport::device_attributes, transport::device_limits, transport::device_offloads;
using transport::device_extra, transport::port_attributes, transport::port_gid,
    transport::port_pkey;
using transport::device_flags, transport::odp_ops, transport::odp_support, transport::pair_types;
using transport::gid_type, transport::lane_speed, transport::physical_state, transport::port_lanes;
using transport::port_link, transport::port_mtu, transport::port_state, transport::virtual_lanes;
using transport::query_devices;
using transport::raw_packet_ops, transport::tag_flags;

}  // namespace cordma
