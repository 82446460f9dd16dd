// What a batch of native operations does to the keyspace.
#pragma once

#include "../command/keyspace.hpp"
#include "protocol.hpp"

#include <cstddef>
#include <span>

namespace kv::native {

struct executed {
  std::size_t bytes = 0;  // of the response
  std::size_t operations = 0;
  bool changed = false;  // something, perhaps
};

// Runs the operations in order, each to completion, all under one hold of their shards, so that a batch is atomic. The
// results go to `room`; where a result does not fit, the value is left out (status::too_long); where not even that
// fits, the batch ends there. `writes`: whether operations that change something are carried out, or refused.
enum class writes : std::uint8_t { allowed, refused };
[[nodiscard]] executed execute(keyspace& keys, std::span<const std::byte> batch,
                               std::span<std::byte> room, writes allowed) noexcept;

}  // namespace kv::native
