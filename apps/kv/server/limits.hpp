// limits: the system's limits on a process, besides those of its configuration, and how to raise
// them.
#pragma once

#include <cstdint>
#include <string>

#include <sys/resource.h>

namespace kv {

[[nodiscard]] std::string size_text(std::uint64_t bytes);

// "open files 1024, locked memory 8.0 MiB".
[[nodiscard]] std::string limits_text(rlim_t open_files, rlim_t locked_bytes);

// Descriptors besides those of clients: journal files, rings, listeners, common memory of native
// clients.
inline constexpr rlim_t other_files = 96;
// Descriptors per client, at most: one for a Redis client, four for a native one: a socket, a
// doorbell (shm), and the memory of one buffer for requests and one for responses
// (native/lending.hpp).
enum class doors : std::uint8_t { redis, redis_and_native };
[[nodiscard]] rlim_t files_wanted(std::uint64_t clients, doors open) noexcept;
// Number of clients that `files` descriptors suffice for; 0: none.
[[nodiscard]] std::uint64_t clients_possible(rlim_t files, doors open) noexcept;
// Raises this process's limit of open files to `wanted` if possible, and returns the limit.
// Infinite if it is unknown.
[[nodiscard]] rlim_t raise_open_files(rlim_t wanted) noexcept;

// How to raise the limit to `wanted`, as a shell command and as a systemd setting.
[[nodiscard]] std::string how_to_raise_files(rlim_t wanted);
// RDMA devices lock the memory that they read: all of maxmemory (0: no limit), and buffers. Returns
// an empty string if the limit suffices.
[[nodiscard]] std::string locked_memory_warning(rlim_t locked_bytes, std::uint64_t maxmemory);

// The kernel's limit for this process: infinite if it may lock any amount (CAP_IPC_LOCK).
[[nodiscard]] rlim_t locked_memory_limit() noexcept;

}  // namespace kv
