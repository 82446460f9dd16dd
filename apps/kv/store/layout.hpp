// Memory layout of a shard, for the store and for peers that read it remotely. Little-endian
// throughout.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kv {

static_assert(std::endian::native == std::endian::little, "what peers read is little-endian");

// The memory of a shard consists of segments of a fixed size, numbered from 0. A region is the unit
// of registration and has segments_per_region consecutive segments: segment s is in region s / 64.
inline constexpr std::size_t segment_bytes = std::size_t{1} << 20;
inline constexpr std::size_t segments_per_region = 64;
inline constexpr std::size_t region_bytes = segment_bytes * segments_per_region;

// Start of an item, in granules of 8 bytes from the start of segment 0. 0: none.
using place = std::uint64_t;
inline constexpr unsigned place_bits = 40;
inline constexpr std::size_t granule = 8;
inline constexpr std::size_t granules_per_segment = segment_bytes / granule;

// {tag 16 | units 8 | place 40}; 0: empty. Published by one 8-byte store.
struct slot {
  static constexpr std::size_t unit = 64;       // bytes
  static constexpr std::uint64_t longer = 255;  // the item is longer than the units can express
  [[nodiscard]] static constexpr std::uint64_t make(std::uint16_t tag, place where,
                                                    std::size_t bytes) noexcept {
    const std::uint64_t units = (bytes + unit - 1) / unit;
    return std::uint64_t{tag} << 48 | (units < longer ? units : longer) << place_bits | where;
  }
  [[nodiscard]] static constexpr std::uint16_t tag(std::uint64_t s) noexcept {
    return static_cast<std::uint16_t>(s >> 48);
  }
  [[nodiscard]] static constexpr place where(std::uint64_t s) noexcept {
    return s & ((std::uint64_t{1} << place_bits) - 1);
  }
  // Number of units that contain the item; `longer`: unknown.
  [[nodiscard]] static constexpr std::uint64_t units(std::uint64_t s) noexcept {
    return s >> place_bits & 0xFF;
  }
};

// A cache line. Its head has the reference of the overflow bucket (0: none) and the number of the
// hash's low bits that all its keys have in common with the bucket's number. A reader that assumed
// fewer bits looks again with this number (linear hashing).
struct alignas(64) bucket {
  static constexpr unsigned slots_per_bucket = 7;
  std::uint64_t head;
  std::array<std::uint64_t, slots_per_bucket> slots;

  [[nodiscard]] static constexpr std::uint64_t make_head(std::uint32_t next,
                                                         unsigned depth) noexcept {
    return std::uint64_t{depth} << 32 | next;
  }
  [[nodiscard]] static constexpr std::uint32_t next(std::uint64_t head) noexcept {
    return static_cast<std::uint32_t>(head);
  }
  [[nodiscard]] static constexpr unsigned depth(std::uint64_t head) noexcept {
    return static_cast<unsigned>(head >> 32 & 0xFF);
  }
};
static_assert(sizeof(bucket) == 64);
// Reference of a bucket: segment times buckets_per_segment, plus its number there.
inline constexpr std::uint32_t buckets_per_segment = segment_bytes / sizeof(bucket);

// At the start of segment 0.
struct shard_head {
  static constexpr std::uint64_t expected_magic = 0x31'76'6B'61'6D'64'72'63;  // "crdmakv1"
  static constexpr std::size_t most_index_segments = 960;
  std::uint64_t magic;
  std::uint64_t hash_seed;
  std::uint64_t buckets;     // number of index buckets: 2^n plus those split since
  std::uint64_t clock;       // the server's time, ms since 1970, set once per pass of its loop
  std::uint64_t generation;  // changes when everything is cleared
  // Items of higher versions may be lost with the server: they are meant to be on the disk and are
  // not yet.
  std::uint64_t safe_version;
  std::array<std::uint64_t, 10> unused;
  std::array<std::uint32_t, most_index_segments> index;  // bucket b: segment index[b / 16384]
  std::array<std::uint32_t, 32> unused_too;
};
inline constexpr std::size_t head_bytes = 4096;
static_assert(sizeof(shard_head) == 128 + 3840 + 128 && sizeof(shard_head) == head_bytes);

// The bucket of a hash, if there are `buckets`.
[[nodiscard]] constexpr std::uint64_t bucket_of(std::uint64_t hash,
                                                std::uint64_t buckets) noexcept {
  const std::uint64_t whole = std::bit_floor(buckets);
  const std::uint64_t b = hash & (2 * whole - 1);
  return b < buckets ? b : b & (whole - 1);
}

}  // namespace kv
