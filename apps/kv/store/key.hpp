// A key and its hash, computed once per request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace kv {

// Bits of a hash: the low ones choose the bucket, bits 32 to 47 the shard, and the high 16 are the
// tag.
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

// For containers keyed by names that clients choose: without the seed a client cannot make chains
// long.
struct seeded_hash {
  using is_transparent = void;
  std::uint64_t seed = 0;
  [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
    return hash_key(text, seed).hash;
  }
};

inline constexpr unsigned most_databases = 16;
// A key of a database other than 0 is stored as this mark, the database number as a byte, and its
// name there. A key of database 0 is stored in the same way if its name begins with the mark.
inline constexpr std::string_view database_mark("\0\xFF\x64\x62", 4);

struct key_place {
  unsigned database = 0;
  std::string_view name;
};
[[nodiscard]] inline key_place place_of_key(std::string_view key) noexcept {
  constexpr std::size_t head = database_mark.size() + 1;
  if (key.size() < head || !key.starts_with(database_mark)) return {0, key};
  const auto number = static_cast<unsigned char>(key[head - 1]);
  return {number < most_databases ? number : most_databases, key.substr(head)};
}

[[nodiscard]] inline std::uint32_t shard_of(std::uint64_t hash, std::uint32_t shards) noexcept {
  return static_cast<std::uint32_t>(((hash >> 32 & 0xFFFF) * shards) >> 16);
}

}  // namespace kv
