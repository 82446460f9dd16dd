// What a batch of native operations does to the keyspace.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "protocol.hpp"

#include <cstddef>
#include <span>
#include <type_traits>

namespace kv::native {

struct executed {
  std::size_t bytes = 0;  // of the response
  std::size_t operations = 0;
  std::size_t refused = 0;  // of them
};

enum class writes : std::uint8_t { allowed, refused };
enum class expired_items : std::uint8_t { erased, kept };
struct circumstances {
  unix_ms now = 0;  // what the shards are told; 0: what they were told last
  // Whether operations that change something are carried out, or refused.
  writes allowed = writes::allowed;
  // During CLIENT PAUSE: what has expired is not found, and is not erased either.
  expired_items expired = expired_items::erased;
};
static_assert(std::is_trivially_destructible_v<circumstances>);

// Whether it has an operation that would change something.
[[nodiscard]] bool changes_anything(std::span<const std::byte> batch) noexcept;

// Runs the operations in order, each to completion, all under one hold of their shards, so that a batch is atomic. The
// results go to `room`; where a result does not fit, the value is left out (status::too_long); where not even that
// fits, the batch ends there.
[[nodiscard]] executed execute(keyspace& keys, std::span<const std::byte> batch,
                               std::span<std::byte> room, const circumstances& at) noexcept;

}  // namespace kv::native
