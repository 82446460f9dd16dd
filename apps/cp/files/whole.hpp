// Blocking reads and writes of all bytes of a pipe, a terminal, or a file at its offset; also for
// non-blocking descriptors.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace copy {

// Returns 0, or errno; ECANCELED within a tenth of a second after a cancellation.
[[nodiscard]] int write_to_end(int fd, std::span<const std::byte> bytes,
                               const std::atomic<bool>& canceled) noexcept;
// Returns the number of bytes, less than requested only at the end of the input; or a negative
// errno, likewise.
[[nodiscard]] int read_to_end(int fd, std::span<std::byte> into,
                              const std::atomic<bool>& canceled) noexcept;

}  // namespace copy
