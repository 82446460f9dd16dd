// The exported forms, little-endian. Of a MemoryRegion, 64 bytes:
//   offset  0  magic "CRMB"
//           4  u16 version
//           6  u16 length of the blob in bytes
//           8  u64 address, in the owner's address space
//          16  u64 length of the region in bytes
//          24  u8  rights (access bits, those of a peer's interest)
//          25  3 bytes, zero
//          28  u32 CRC32C of the blob with this field zero
//          32  u64 rkey, one per transport::kind in its order; 0 = not exported there
// Of a SyncEvent, 88 bytes:
//   offset  0  magic "CRSE"
//           4  u16 version
//           6  u16 length of the blob in bytes
//           8  u32 CRC32C of the blob with this field zero
//          12  u32 the immediate of notices
//          16  u8  whether its owner wants notices: 0, 1
//          17  7 bytes, zero
//          24  the counter's memory: 8 bytes, aligned to 8, in the form above
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
  static constexpr std::uint8_t rights_bits = 15;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  transport::access rights = transport::access::local_read;
  std::array<std::uint64_t, transport::kind_count> rkeys{};
};
static_assert(32 + 8 * transport::kind_count == blob::bytes);
static_assert((blob::rights_bits & static_cast<unsigned>(transport::all_remote)) ==
                  static_cast<unsigned>(transport::all_remote),
              "what a peer may do is said to it");
static_assert((blob::rights_bits & static_cast<unsigned>(transport::access::mw_bind)) == 0,
              "what only the owner may do is not");

void encode(const blob& b, std::span<std::byte, blob::bytes> out) noexcept;
// invalid_value or unsupported_version, with a sentence. Accepts nothing that encode() cannot write.
[[nodiscard]] result<blob> decode(std::span<const std::byte> in);

struct sync_blob {
  static constexpr std::size_t word_at = 24;
  static constexpr std::size_t bytes = word_at + blob::bytes;
  static constexpr std::uint16_t version = 1;
  blob word;
  std::uint32_t imm = 0;
  bool notices = false;
};
static_assert(sync_blob::word_at % 8 == 0 && sync_blob::bytes == 88);

void encode(const sync_blob& b, std::span<std::byte, sync_blob::bytes> out) noexcept;
// As decode().
[[nodiscard]] result<sync_blob> decode_sync(std::span<const std::byte> in);

// Castagnoli polynomial, as iSCSI and ext4 use it (RFC 3720, appendix B.4).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data) noexcept;

}  // namespace cordma::detail
