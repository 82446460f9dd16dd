// A page of the keys, as the native protocol gives it.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "protocol.hpp"

#include <cstddef>
#include <span>

namespace kv::native {

// Writes a scan_response and its keys to `room`, which has space for the former; returns the bytes. `now`: what the
// shards are told; 0: what they were told last.
[[nodiscard]] std::size_t scan(keyspace& keys, const scan_question& what, std::span<std::byte> room,
                               unix_ms now);

}  // namespace kv::native
