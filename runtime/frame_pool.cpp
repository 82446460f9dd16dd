#include <cordma/runtime/frame_pool.hpp>

#include <array>
#include <new>
#include <utility>

namespace cordma::frame_pool {
namespace {

struct free_frame {
  free_frame* next;
};

struct size_class {
  free_frame* head = nullptr;
  std::size_t count = 0;
};

// Under AddressSanitizer frames go straight back to the heap: kept ones would hide the use of a
// destroyed coroutine.
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

constexpr std::size_t class_of(std::size_t bytes) noexcept { return (bytes - 1) / granule; }

struct pool {
  std::array<size_class, classes> lists{};
};

// Empty and full at once: nothing can be taken from it, and nothing be put into it.
constexpr pool useless() noexcept {
  pool p;
  for (size_class& c : p.lists) c.count = kept;
  return p;
}

// A thread uses the first before it has a pool, and the second at its end. Both are only read.
constinit pool not_yet = useless();
constinit pool no_more = useless();

// A pointer, not the pool: the static storage of threads is small, and each plugin with a copy of this
// library takes its part of it.
constinit thread_local pool* mine = &not_yet;
constinit thread_local std::int64_t handed_out = 0;

// Ends the thread's pool with the thread.
struct end_of_thread {
  ~end_of_thread() {
    pool* const own = std::exchange(mine, &no_more);
    for (size_class& c : own->lists) {
      while (c.head != nullptr) ::operator delete(std::exchange(c.head, c.head->next));
    }
    delete own;
  }
};

void* allocate_from_heap(std::size_t bytes) {
  if (mine == &not_yet) {
    mine = new pool;
    static thread_local const end_of_thread ends_it;
  }
  return ::operator new(bytes);
}

}  // namespace

void* allocate(std::size_t bytes) {
  void* frame = nullptr;
  if (bytes > largest) {
    frame = ::operator new(bytes);
  } else if (size_class& c = mine->lists[class_of(bytes)]; c.head == nullptr) {
    frame = allocate_from_heap((class_of(bytes) + 1) * granule);
  } else {
    frame = std::exchange(c.head, c.head->next);
    --c.count;
  }
  ++handed_out;  // last: operator new may have thrown
  return frame;
}

void deallocate(void* frame, std::size_t bytes) noexcept {
  --handed_out;
  if (bytes > largest || mine->lists[class_of(bytes)].count == kept) {
    ::operator delete(frame);
    return;
  }
  size_class& c = mine->lists[class_of(bytes)];
  auto* f = static_cast<free_frame*>(frame);
  f->next = c.head;
  c.head = f;
  ++c.count;
}

std::int64_t outstanding() noexcept { return handed_out; }
bool keeps_frames() noexcept { return kept > 0; }

}  // namespace cordma::frame_pool
