// Returns a page of keys for the native protocol.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "protocol.hpp"

#include <cstddef>
#include <span>

namespace kv::native {

// Writes a scan_response and its keys to `room`, which has space for the former. Returns the bytes
// written. `now`: time for the shards; 0: they keep their last.
[[nodiscard]] std::size_t scan(keyspace& keys, const scan_question& what, std::span<std::byte> room,
                               unix_ms now);

}  // namespace kv::native
