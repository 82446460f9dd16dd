// The descriptor that a queue pair transfers to its peer out of band: its addresses and its token.
#pragma once

#include <cordma/net/transport/tcp/hello.hpp>
#include <cordma/net/transport/tcp/socket.hpp>
#include <vector>

namespace cordma::transport::tcp {

inline constexpr std::size_t most_places = 8;  // addresses in one descriptor

struct place {
  std::uint8_t family = 4;  // 4 or 6
  std::array<std::byte, 16> address{};
};

struct pair_descriptor {
  std::uint16_t port = 0;
  token own{};
  std::vector<place> places;
};

//  0 magic, 8 version u16, 10 port u16, 12 count u8, 13 zero u8, 14 zero u16, 16 token
// 32 count times: family u8, address 16 bytes; then the CRC-32 of all before, u32
inline constexpr std::array<char, 8> descriptor_magic{'c', 'o', 'r', 'd', 'm', 'a', '-', 'd'};
inline constexpr std::size_t descriptor_fixed = 32;
inline constexpr std::size_t place_bytes = 17;
inline constexpr std::size_t checksum_bytes = 4;
static_assert(16 + sizeof(token) == descriptor_fixed);
static_assert(1 + sizeof(place::address) == place_bytes);
static_assert(descriptor_magic.size() == 8 && descriptor_magic != hello_magic);
static_assert(most_places <= UINT8_MAX, "the count is one byte");
static_assert(checksum_bytes == sizeof(std::uint32_t));

[[nodiscard]] std::vector<std::byte> encode(const pair_descriptor& d);
// Errors: connection_aborted for broken bytes, unsupported_version for another version.
[[nodiscard]] result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes);

// This machine's addresses; those that other machines can use are first.
[[nodiscard]] std::vector<place> local_places();
[[nodiscard]] std::vector<socket_address> to_addresses(const pair_descriptor& d);
[[nodiscard]] result<token> random_token();

}  // namespace cordma::transport::tcp
