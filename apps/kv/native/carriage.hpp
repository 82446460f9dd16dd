// How batches travel: what the two sides of the native protocol have to agree on, or do best to.
#pragma once

#include "protocol.hpp"

#include <cordma/net/messages.hpp>

#include <cstddef>
#include <cstdint>

namespace kv::native {

// Requests and responses that are longer have memory of their own (long_memory), for as long as they take.
inline constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
// At once; those of further batches wait for one.
inline constexpr std::uint32_t buffers = 64;
// Of memory for longer ones so much is kept registered when nobody uses it.
inline constexpr std::size_t most_kept_bytes = std::size_t{64} << 20;
inline constexpr std::size_t longest_batch = max_value_bytes + max_key_bytes + 2 * sizeof(op_head);
inline constexpr cordma::message_options message_settings{
    .eager_bytes = 16'384, .credits = 64, .rails = 1};
inline constexpr std::uint32_t window = 32;
inline constexpr std::uint32_t inline_bytes = 12'288;

}  // namespace kv::native
