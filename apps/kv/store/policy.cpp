#include "policy.hpp"

#include <array>
#include <cstddef>

namespace kv {
namespace {

constexpr std::array<std::string_view, 8> names = {
    "noeviction",   "allkeys-lru",  "allkeys-lfu",     "allkeys-random",
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"};

}  // namespace

std::string_view name(eviction policy) noexcept { return names[static_cast<std::size_t>(policy)]; }

std::optional<eviction> parse_eviction(std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<eviction>(i);
  }
  return std::nullopt;
}

}  // namespace kv
