// Runs a batch of native operations on the keyspace.
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
  std::size_t refused = 0;  // of the operations
};

enum class writes : std::uint8_t { allowed, refused };
enum class expired_items : std::uint8_t { erased, kept };
struct circumstances {
  unix_ms now = 0;  // time for the shards; 0: they keep their last
  // Whether operations that change data are run or refused.
  writes allowed = writes::allowed;
  // During CLIENT PAUSE, expired keys are not found, and not erased either.
  expired_items expired = expired_items::erased;
};
static_assert(std::is_trivially_destructible_v<circumstances>);

// True if it has an operation that may change data.
[[nodiscard]] bool changes_anything(std::span<const std::byte> batch) noexcept;

// Runs the operations in order, all under one hold of their shards, so that a batch is atomic.
// Writes the results to `room`. If a value does not fit, it is left out (status::too_long); if not
// even its head fits, the batch ends there.
[[nodiscard]] executed execute(keyspace& keys, std::span<const std::byte> batch,
                               std::span<std::byte> room, const circumstances& at) noexcept;

}  // namespace kv::native
