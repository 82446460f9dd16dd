// The allocator of coroutine frames: a per-thread free list by size, so that a warm program never
// calls malloc for a coroutine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace cordma::frame_pool {

inline constexpr std::size_t granule = 64;       // bytes; frame sizes are rounded up to it
inline constexpr std::size_t largest = 64 * 64;  // bytes; larger frames come from operator new
inline constexpr std::size_t classes = largest / granule;
inline constexpr std::size_t kept_per_class =
    4096;  // frames; further ones are returned to the heap

namespace detail {

struct free_frame {
  free_frame* next;
};
// The free frames of one size.
struct size_class {
  free_frame* head = nullptr;
  std::size_t room = 0;  // free capacity for returned frames
};
struct pool {
  std::array<size_class, classes> lists{};
};
// A pointer, not the pool: the static storage of threads is small, and each plugin with a copy of
// this library takes its part of it.
extern constinit thread_local pool* mine;

[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) noexcept {
  return (bytes - 1) / granule;
}
[[nodiscard, gnu::noinline]] void* allocate_from_heap(std::size_t bytes);
[[gnu::noinline]] void give_to_heap(void* frame) noexcept;

}  // namespace detail

// Returns 16-byte aligned memory. A frame may be freed on another thread than the one that
// allocated it. It joins the free list of that thread; on a thread that has never allocated a frame
// it is returned to the heap. Inline: if the size is constant, as in each coroutine, the size class
// needs no search.
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

// Number of frames allocated and not yet freed by this thread. Equal to the number of live
// coroutines if no coroutine of the thread migrates.
[[nodiscard]] std::int64_t outstanding() noexcept;

// False in builds with AddressSanitizer, where every frame is allocated from and returned to the
// heap.
[[nodiscard]] bool keeps_frames() noexcept;

}  // namespace cordma::frame_pool
