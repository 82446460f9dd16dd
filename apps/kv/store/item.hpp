// Memory layout of a value that the server publishes and clients read one-sidedly. All numbers are
// little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kv {

// Milliseconds since 1970, UTC.
using unix_ms = std::uint64_t;
inline constexpr unix_ms never_expires = 0;

enum class value_kind : std::uint8_t {
  string = 0,
  blob = 1,  // a string too long for a segment: the item holds an object's number (8 bytes)
  hash = 2,  // fields and values: the item holds an object's number (8 bytes)
};

inline constexpr std::size_t max_key_bytes = 65'535;
inline constexpr std::size_t max_value_bytes = std::size_t{512} << 20;  // as in Redis
inline constexpr std::size_t item_granule = 8;

// Header of an item. After it follow the expiry (8 bytes, only if flag_expires is set), the key,
// the value, and zeros up to a multiple of item_granule. After publication only `access` and
// flag_dead change.
struct item {
  static constexpr std::uint8_t kind_mask = 0x03;
  static constexpr std::uint8_t flag_expires = 0x10;
  static constexpr std::uint8_t flag_dead = 0x80;

  std::uint32_t crc;     // CRC32C of the place (8 bytes) and all bytes from `version` on, unpadded
  std::uint32_t access;  // time or frequency of use; used by the store only, see access.hpp
  std::uint64_t version;
  std::uint32_t value_bytes;
  std::uint16_t key_bytes;
  std::uint8_t flags;
  std::uint8_t unused;

  [[nodiscard]] bool dead() const noexcept { return (flags & flag_dead) != 0; }
  [[nodiscard]] value_kind kind() const noexcept { return value_kind(flags & kind_mask); }
  [[nodiscard]] bool expires() const noexcept { return (flags & flag_expires) != 0; }
  [[nodiscard]] unix_ms expiry() const noexcept {
    if (!expires()) return never_expires;
    unix_ms when = 0;
    std::memcpy(&when, this + 1, sizeof when);
    return when;
  }
  [[nodiscard]] const char* key_data() const noexcept {
    return reinterpret_cast<const char*>(this + 1) + (expires() ? sizeof(unix_ms) : 0);
  }
  [[nodiscard]] std::string_view key() const noexcept { return {key_data(), key_bytes}; }
  // Bytes in the item: the value of a string, else the object's number.
  [[nodiscard]] std::string_view stored() const noexcept {
    return {key_data() + key_bytes, value_bytes};
  }
  [[nodiscard]] std::size_t used_bytes() const noexcept {
    return sizeof(item) + (expires() ? sizeof(unix_ms) : 0) + key_bytes + value_bytes;
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return (used_bytes() + item_granule - 1) / item_granule * item_granule;
  }
};
static_assert(sizeof(item) == 24 && offsetof(item, version) == 8 && offsetof(item, flags) == 22);

}  // namespace kv
