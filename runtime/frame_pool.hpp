// Where coroutine frames come from: a per-thread free list by size, so that a warm program never
// reaches malloc for a coroutine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cordma::frame_pool {

inline constexpr std::size_t granule = 64;       // bytes; frame sizes are rounded up to it
inline constexpr std::size_t largest = 64 * 64;  // bytes; beyond it frames come from operator new
inline constexpr std::size_t classes = largest / granule;
inline constexpr std::size_t kept_per_class = 4096;  // frames; beyond it they go back to the heap

// 16-byte aligned. A frame may be freed on another thread than it came from. It joins that thread's
// list; on a thread that has never taken a frame it goes back to the heap.
[[nodiscard]] void* allocate(std::size_t bytes);
void deallocate(void* frame, std::size_t bytes) noexcept;

// Frames handed out and not yet given back by this thread: equal to the coroutines alive, on a
// thread whose coroutines never migrate.
[[nodiscard]] std::int64_t outstanding() noexcept;

// False in builds with AddressSanitizer, where every frame comes from the heap and goes back to it.
[[nodiscard]] bool keeps_frames() noexcept;

}  // namespace cordma::frame_pool
