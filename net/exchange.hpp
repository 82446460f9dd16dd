// Carrying a descriptor, or a memory blob, to the peer by what is there already: a file, or a connected
// socket. For programs that start before they are connected; nothing here is for the data path.
#pragma once

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace cordma {

// The longest that is carried, in bytes; descriptors and blobs are far below.
inline constexpr std::size_t max_exchanged = 4096;

// Any thread. Puts `bytes` where `path` says, whole or not at all: what was there before is replaced in
// one step. Only the owner of the file may read it, because whoever has a descriptor can connect.
// Errors: invalid_value (more than max_exchanged; something else than a file is there: a device, a link,
// a folder), not_found (no such folder), not_permitted, and what else the system says.
result<void> write_exchanged(const std::string& path, std::span<const std::byte> bytes);
// Any thread. Errors: not_found (not written yet), invalid_value (more than max_exchanged, or no regular
// file), and what else the system says. What the bytes mean is checked by who takes them.
[[nodiscard]] result<std::vector<std::byte>> read_exchanged(const std::string& path);

// Any thread. Both ends of a connected stream socket call it with their own bytes and get the other's;
// the socket stays open and the caller's. Blocks until the peer has called it too, for ever unless the
// socket has SO_RCVTIMEO. REQUIRES a socket that blocks. Errors: invalid_value (more than
// max_exchanged, here or announced by the peer), connection_reset (the peer closed before it had said
// all), timed_out, and what else the system says.
[[nodiscard]] result<std::vector<std::byte>> exchange_over(int socket,
                                                           std::span<const std::byte> bytes);

}  // namespace cordma
