// Checksum of data that users carry out of band: descriptors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cordma::transport {

// IEEE 802.3 polynomial, reflected, as zlib and Ethernet use it. Not for the data path.
[[nodiscard]] constexpr std::uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  std::uint32_t crc = 0xffffffffU;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}
static_assert(crc32(std::array{std::byte{'1'}, std::byte{'2'}, std::byte{'3'}, std::byte{'4'},
                               std::byte{'5'}, std::byte{'6'}, std::byte{'7'}, std::byte{'8'},
                               std::byte{'9'}}) == 0xcbf43926U,
              "the check value of the polynomial");

}  // namespace cordma::transport
