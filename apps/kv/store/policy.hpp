// Selection of the keys that are evicted when memory is short: Redis's maxmemory-policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kv {

enum class eviction : std::uint8_t {
  none,  // "noeviction": writes are refused
  allkeys_lru,
  allkeys_lfu,
  allkeys_random,
  volatile_lru,
  volatile_lfu,
  volatile_random,
  volatile_ttl,
};

// "noeviction", "allkeys-lru", ...
[[nodiscard]] std::string_view name(eviction policy) noexcept;
[[nodiscard]] std::optional<eviction> parse_eviction(std::string_view text) noexcept;

// True if keys without an expiry are never evicted.
[[nodiscard]] constexpr bool volatile_only(eviction policy) noexcept {
  return policy >= eviction::volatile_lru;
}
[[nodiscard]] constexpr bool counts_uses(eviction policy) noexcept {
  return policy == eviction::allkeys_lfu || policy == eviction::volatile_lfu;
}

}  // namespace kv
