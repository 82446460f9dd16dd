// Transfers a descriptor, or a memory blob, to the peer by an existing channel: a file or a
// connected socket. For programs that start before they are connected; not for the data path.
#pragma once

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace cordma {

// Limit of a transfer, in bytes; descriptors and blobs are far below it.
inline constexpr std::size_t max_exchanged = 4096;

// Any thread. Writes `bytes` to the file `path` atomically: an existing file is replaced in one
// step. Only the owner of the file may read it, because any process with a descriptor can connect.
// Errors: invalid_value (more than max_exchanged; `path` exists and is not a regular file but a
// device, a link or a folder), not_found (no such folder), not_permitted, and other errors of the
// system.
result<void> write_exchanged(const std::string& path, std::span<const std::byte> bytes);
// Any thread. Errors: not_found (not written yet), invalid_value (more than max_exchanged, or not a
// regular file), and other errors of the system. The content is not checked here; the functions
// that use it do so.
[[nodiscard]] result<std::vector<std::byte>> read_exchanged(const std::string& path);

// Any thread. Both ends of a connected stream socket call it with their own bytes and receive the
// bytes of the other; the socket stays open and belongs to the caller. Blocks until the peer has
// called it too, without limit unless the socket has SO_RCVTIMEO. REQUIRES a blocking socket.
// Errors: invalid_value (more than max_exchanged, here or announced by the peer), connection_reset
// (the peer closed before it had sent everything), timed_out, and other errors of the system.
[[nodiscard]] result<std::vector<std::byte>> exchange_over(int socket,
                                                           std::span<const std::byte> bytes);

}  // namespace cordma
