// All bytes, of a pipe, a terminal, or a file from where it is: blocks until then, also where a descriptor does not.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace copy {

// 0, or errno; ECANCELED within a tenth of a second where it is.
[[nodiscard]] int write_to_end(int fd, std::span<const std::byte> bytes,
                               const std::atomic<bool>& canceled) noexcept;
// Bytes, fewer than there is room for only at the end of what there is; or a negative errno, likewise.
[[nodiscard]] int read_to_end(int fd, std::span<std::byte> into,
                              const std::atomic<bool>& canceled) noexcept;

}  // namespace copy
