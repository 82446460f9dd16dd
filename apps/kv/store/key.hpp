// A key and its hash, computed once per request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace kv {

// Where the bits of a hash go: the low ones choose the bucket, bits 32 to 47 the shard, the high 16 are the tag.
struct hashed_key {
  std::string_view text;
  std::uint64_t hash = 0;

  [[nodiscard]] std::uint16_t tag() const noexcept {
    return static_cast<std::uint16_t>(hash >> 48);
  }
};

[[nodiscard]] inline hashed_key hash_key(std::string_view text, std::uint64_t seed) noexcept {
  return {text, XXH3_64bits_withSeed(text.data(), text.size(), seed)};
}

[[nodiscard]] inline std::uint32_t shard_of(std::uint64_t hash, std::uint32_t shards) noexcept {
  return static_cast<std::uint32_t>(((hash >> 32 & 0xFFFF) * shards) >> 16);
}

}  // namespace kv
