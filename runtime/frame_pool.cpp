#include <cordma/runtime/frame_pool.hpp>

#include <utility>

namespace cordma::frame_pool {
namespace {

using detail::mine;
using detail::pool;
using detail::size_class;

// Under AddressSanitizer frames are returned to the heap at once: pooled ones would hide the use of
// a destroyed coroutine.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kept = 0;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr std::size_t kept = 0;
#else
constexpr std::size_t kept = kept_per_class;
#endif
#else
constexpr std::size_t kept = kept_per_class;
#endif

// Pools that are empty and full at once: no frame can be taken from or added to them. A thread uses
// the first before it has a pool, and the second at its end. Both are only read.
constinit pool not_yet;
constinit pool no_more;

// Number of frames that this thread allocated from the heap, minus those that it returned to it.
constinit thread_local std::int64_t from_heap = 0;

pool* make_pool() {
  auto* const made = new pool;
  for (size_class& c : made->lists) c.room = kept;
  return made;
}

// Destroys the thread's pool at the end of the thread.
struct end_of_thread {
  ~end_of_thread() {
    pool* const own = std::exchange(mine, &no_more);
    for (size_class& c : own->lists) {
      while (c.head != nullptr) detail::give_to_heap(std::exchange(c.head, c.head->next));
    }
    delete own;
  }
};

}  // namespace

constinit thread_local pool* detail::mine = &not_yet;

void* detail::allocate_from_heap(std::size_t bytes) {
  const bool is_kept = bytes <= largest;
  if (is_kept && mine == &not_yet) {
    mine = make_pool();
    static thread_local const end_of_thread ends_it;
  }
  void* const frame = ::operator new(is_kept ? (class_of(bytes) + 1) * granule : bytes);
  ++from_heap;  // last: operator new may have thrown
  return frame;
}

void detail::give_to_heap(void* frame) noexcept {
  --from_heap;
  ::operator delete(frame);
}

std::int64_t outstanding() noexcept {
  std::int64_t here = 0;
  if (mine != &not_yet && mine != &no_more) {
    for (const size_class& c : mine->lists) here += static_cast<std::int64_t>(kept - c.room);
  }
  return from_heap - here;
}
bool keeps_frames() noexcept { return kept > 0; }

}  // namespace cordma::frame_pool
