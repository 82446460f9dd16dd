// Transfer parameters of the native protocol, which both sides have to agree on, or should.
#pragma once

#include "protocol.hpp"

#include <cordma/net/messages.hpp>

#include <cstddef>
#include <cstdint>

namespace kv::native {

// Longer requests and responses use separate memory (long_memory) while they are in flight.
inline constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
// In use at once; further batches wait for a buffer.
inline constexpr std::uint32_t buffers = 64;
// Limit of unused memory for longer ones that is kept registered.
inline constexpr std::size_t most_kept_bytes = std::size_t{64} << 20;
inline constexpr std::size_t longest_batch = max_value_bytes + max_key_bytes + 2 * sizeof(op_head);
inline constexpr cordma::message_options message_settings{
    .eager_bytes = 16'384, .credits = 64, .rails = 1};
inline constexpr std::uint32_t window = 32;
inline constexpr std::uint32_t inline_bytes = 12'288;

}  // namespace kv::native
