// The lower limit of maxmemory: below it a shard has no space for any item.
#pragma once

#include "../store/layout.hpp"

#include <cstdint>
#include <string>

namespace kv {

// The shard's head, its index, the space reserved for copying, and one segment for items.
inline constexpr std::uint64_t least_shard_bytes = 5 * std::uint64_t{segment_bytes};

// Returns an empty string if maxmemory suffices or is no limit (0), else the reason.
[[nodiscard]] inline std::string memory_refusal(std::uint64_t maxmemory, std::uint64_t shards) {
  const std::uint64_t least = least_shard_bytes * shards;
  if (maxmemory == 0 || maxmemory >= least) return {};
  return "maxmemory " + std::to_string(maxmemory) +
         " is too little for anything to be kept: with " + std::to_string(shards) +
         (shards == 1 ? " thread" : " threads") + " it is at least " + std::to_string(least >> 20) +
         "mb (5mb for each), or 0 for no limit";
}

}  // namespace kv
