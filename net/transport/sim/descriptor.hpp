// The descriptor that the user transfers from one side to the other to connect two queue pairs.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/runtime/result.hpp>

#include <span>
#include <vector>

namespace cordma::transport::sim {

struct pair_descriptor {
  endpoint_id id;
  handshake hello;  // type, read_depth, first_psn
};

// Little-endian: magic 4, version 1, service 1, zero 2, host 4, instance 4, number 4, read depth 4,
// first PSN 8, checksum 8 of all before it.
inline constexpr std::size_t descriptor_bytes = 40;
static_assert(4 + 1 + 1 + 2 + 3 * sizeof(std::uint32_t) + 4 + 8 + 8 == descriptor_bytes);
static_assert(sizeof(endpoint_id) == 3 * sizeof(std::uint32_t), "host, instance and number");
inline constexpr std::uint8_t descriptor_version = 1;

[[nodiscard]] std::vector<std::byte> encode_descriptor(const pair_descriptor& d);
// connection_aborted: not a descriptor, or damaged. unsupported_version.
[[nodiscard]] result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes);

}  // namespace cordma::transport::sim
