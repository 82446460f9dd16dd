// The exported form of a MemoryRegion. 64 bytes, little-endian:
//   offset  0  magic "CRMB"
//           4  u16 version
//           6  u16 length of the blob in bytes
//           8  u64 address, in the owner's address space
//          16  u64 length of the region in bytes
//          24  u8  rights (access bits)
//          25  3 bytes, zero
//          28  u32 CRC32C of the blob with this field zero
//          32  u64 rkey, one per transport::kind in its order; 0 = not exported there
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace cordma::detail {

struct blob {
  static constexpr std::size_t bytes = 64;
  static constexpr std::uint16_t version = 1;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  transport::access rights = transport::access::local_read;
  std::array<std::uint64_t, transport::kind_count> rkeys{};
};
static_assert(32 + 8 * transport::kind_count == blob::bytes);

void encode(const blob& b, std::span<std::byte, blob::bytes> out) noexcept;
// invalid_value or unsupported_version, with a sentence. Accepts nothing that encode() cannot write.
[[nodiscard]] result<blob> decode(std::span<const std::byte> in);

// Castagnoli polynomial, as iSCSI and ext4 use it (RFC 3720, appendix B.4).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data) noexcept;

}  // namespace cordma::detail
