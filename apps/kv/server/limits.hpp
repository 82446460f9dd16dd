// limits: what the system lets a process have, beside what its configuration takes; and how to raise it.
#pragma once

#include <cstdint>
#include <string>

#include <sys/resource.h>

namespace kv {

inline constexpr rlim_t other_files =
    96;  // besides clients: files of the journal, rings, what listens

[[nodiscard]] std::string size_text(std::uint64_t bytes);

// "open files 1024, locked memory 8.0 MiB".
[[nodiscard]] std::string limits_text(rlim_t open_files, rlim_t locked_bytes);

// How to have so many, in the words of the shell and of systemd.
[[nodiscard]] std::string how_to_raise_files(rlim_t wanted);
// How many clients there can be with the files that the process may open; raises the soft limit where that helps. 0: none.
[[nodiscard]] std::uint64_t clients_that_fit(std::uint64_t wanted) noexcept;
// RDMA devices lock what they read: all of maxmemory (0: no limit), and buffers. Empty: that fits.
[[nodiscard]] std::string locked_memory_warning(rlim_t locked_bytes, std::uint64_t maxmemory);

// As the kernel has it for this process: infinite where it may lock what it likes (CAP_IPC_LOCK).
[[nodiscard]] rlim_t locked_memory_limit() noexcept;

}  // namespace kv
