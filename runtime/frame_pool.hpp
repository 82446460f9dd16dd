// Where coroutine frames come from: a per-thread free list by size, so that a warm program never
// reaches malloc for a coroutine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace cordma::frame_pool {

inline constexpr std::size_t granule = 64;       // bytes; frame sizes are rounded up to it
inline constexpr std::size_t largest = 64 * 64;  // bytes; beyond it frames come from operator new
inline constexpr std::size_t classes = largest / granule;
inline constexpr std::size_t kept_per_class = 4096;  // frames; beyond it they go back to the heap

namespace detail {

struct free_frame {
  free_frame* next;
};
// The free frames of one size.
struct size_class {
  free_frame* head = nullptr;
  std::size_t room = 0;  // for frames that are given back
};
struct pool {
  std::array<size_class, classes> lists{};
};
// A pointer, not the pool: the static storage of threads is small, and each plugin with a copy of this
// library takes its part of it.
extern constinit thread_local pool* mine;

[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) noexcept {
  return (bytes - 1) / granule;
}
[[nodiscard, gnu::noinline]] void* allocate_from_heap(std::size_t bytes);
[[gnu::noinline]] void give_to_heap(void* frame) noexcept;

}  // namespace detail

// 16-byte aligned. A frame may be freed on another thread than it came from. It joins that thread's
// list; on a thread that has never taken a frame it goes back to the heap. Inline: where the size is
// constant, as in each coroutine, there is no class to look for.
[[nodiscard]] inline void* allocate(std::size_t bytes) {
  if (bytes > largest) [[unlikely]]
    return detail::allocate_from_heap(bytes);
  detail::size_class& c = detail::mine->lists[detail::class_of(bytes)];
  detail::free_frame* const frame = c.head;
  if (frame == nullptr) [[unlikely]]
    return detail::allocate_from_heap(bytes);
  c.head = frame->next;
  ++c.room;
  return frame;
}

inline void deallocate(void* frame, std::size_t bytes) noexcept {
  if (bytes > largest) [[unlikely]]
    return detail::give_to_heap(frame);
  detail::size_class& c = detail::mine->lists[detail::class_of(bytes)];
  if (c.room == 0) [[unlikely]]
    return detail::give_to_heap(frame);
  c.head = ::new (frame) detail::free_frame{c.head};
  --c.room;
}

// Frames handed out and not yet given back by this thread: equal to the coroutines alive, on a
// thread whose coroutines never migrate.
[[nodiscard]] std::int64_t outstanding() noexcept;

// False in builds with AddressSanitizer, where every frame comes from the heap and goes back to it.
[[nodiscard]] bool keeps_frames() noexcept;

}  // namespace cordma::frame_pool
