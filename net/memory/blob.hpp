// The exported forms, little-endian, version 2. Of a MemoryRegion, 64 bytes:
//   offset  0  magic "CRMB"
//           4  u16 version
//           6  u16 length of the blob in bytes
//           8  u64 address, in the owner's address space
//          16  u64 length of the memory in bytes
//          24  u8  rights (access bits, those of a peer's interest)
//          25  u8  kind of memory; 0 = host memory
//          26  u16 device that owns the memory; 0 for host memory
//          28  u32 CRC32C of the blob with this field zero
//          32  u8  number of keys, 1 to 3
//          33  the keys, 9 bytes each, in the owner's order of preference:
//                  0  u8  transport::kind
//                  1  u64 key, not 0
//              and zeros up to the length
// Of a SyncEvent, 88 bytes:
//   offset  0  magic "CRSE"
//           4  u16 version
//           6  u16 length of the blob in bytes
//           8  u32 CRC32C of the blob with this field zero
//          12  u32 the immediate of notices
//          16  u8  1 if its owner requests notices, else 0
//          17  7 bytes, zero
//          24  the counter's memory: 8 bytes, aligned to 8, in the form above
#pragma once

#include <cordma/net/transport/remote_keys.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <span>

namespace cordma::detail {

struct region_core;

struct blob {
  static constexpr std::size_t bytes = 64;
  static constexpr std::uint16_t version = 2;
  static constexpr std::uint8_t rights_bits = 15;
  static constexpr std::size_t rights_at = 24;
  static constexpr std::size_t memory_at = 25;
  static constexpr std::size_t device_at = 26;
  static constexpr std::size_t crc_at = 28;
  static constexpr std::size_t count_at = 32;
  static constexpr std::size_t keys_at = 33;
  static constexpr std::size_t key_bytes = 9;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  transport::access rights = transport::access::local_read;
  std::uint8_t memory = 0;      // kind
  std::uint16_t device = 0;     // 0 for host memory
  transport::remote_keys keys;  // including those of unknown transports
};
static_assert((blob::rights_bits & static_cast<unsigned>(transport::all_remote)) ==
                  static_cast<unsigned>(transport::all_remote),
              "what a peer may do is said to it");
static_assert((blob::rights_bits & static_cast<unsigned>(transport::access::mw_bind)) == 0,
              "what only the owner may do is not");
static_assert(blob::device_at + sizeof(blob::device) == blob::crc_at);
static_assert(blob::crc_at + sizeof(std::uint32_t) == blob::count_at);
static_assert(blob::key_bytes == sizeof(transport::kind) + sizeof(std::uint64_t));
static_assert(blob::keys_at + transport::remote_keys::most * blob::key_bytes <= blob::bytes);
static_assert(blob::keys_at + (transport::remote_keys::most + 1) * blob::key_bytes > blob::bytes);

// REQUIRES a key.
void encode(const blob& b, std::span<std::byte, blob::bytes> out) noexcept;
// invalid_value or unsupported_version, with a sentence. Accepts nothing that encode() cannot write.
[[nodiscard]] result<blob> decode(std::span<const std::byte> in);

// Describes memory within `region`, without keys: the first step of every blob.
[[nodiscard]] blob describe(const region_core& region, std::span<const std::byte> memory,
                            transport::access rights) noexcept;
// The keys by which peers access `region`, in the order of its Context's transports. invalid_value:
// no key, or more than a blob can store.
[[nodiscard]] result<transport::remote_keys> keys_of(const region_core& region);

struct sync_blob {
  static constexpr std::size_t crc_at = 8;
  static constexpr std::size_t word_at = 24;
  static constexpr std::size_t bytes = word_at + blob::bytes;
  static constexpr std::uint16_t version = 2;
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
