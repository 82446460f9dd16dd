// limits: what the system lets a process have, beside what its configuration takes; and how to raise it.
#pragma once

#include <cstdint>
#include <string>

#include <sys/resource.h>

namespace kv {

[[nodiscard]] std::string size_text(std::uint64_t bytes);

// "open files 1024, locked memory 8.0 MiB".
[[nodiscard]] std::string limits_text(rlim_t open_files, rlim_t locked_bytes);

// Descriptors besides clients': files of the journal, rings, what listens, memory that native clients have together.
inline constexpr rlim_t other_files = 96;
// What so many clients take, at most: of Redis's one each, of native ones four: a socket, a doorbell (shm), and the memory
// of a buffer of its own for a request and for an answer (native/lending.hpp).
enum class doors : std::uint8_t { redis, redis_and_native };
[[nodiscard]] rlim_t files_wanted(std::uint64_t clients, doors open) noexcept;
// How many clients so many descriptors do for; 0: for none.
[[nodiscard]] std::uint64_t clients_possible(rlim_t files, doors open) noexcept;
// The limit of this process, which has been raised, where that is possible, to `wanted`. Infinite where it is not known.
[[nodiscard]] rlim_t raise_open_files(rlim_t wanted) noexcept;

// How to have so many, in the words of the shell and of systemd.
[[nodiscard]] std::string how_to_raise_files(rlim_t wanted);
// RDMA devices lock what they read: all of maxmemory (0: no limit), and buffers. Empty: that fits.
[[nodiscard]] std::string locked_memory_warning(rlim_t locked_bytes, std::uint64_t maxmemory);

// As the kernel has it for this process: infinite where it may lock what it likes (CAP_IPC_LOCK).
[[nodiscard]] rlim_t locked_memory_limit() noexcept;

}  // namespace kv
