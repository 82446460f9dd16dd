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

struct pool {
  std::array<size_class, classes> lists{};
  std::int64_t outstanding = 0;
  ~pool() {
    for (size_class& c : lists) {
      while (c.head != nullptr) {
        free_frame* f = c.head;
        c.head = f->next;
        ::operator delete(f);
      }
    }
  }
};

constinit thread_local pool mine;

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

}  // namespace

void* allocate(std::size_t bytes) {
  size_class* const c = bytes > largest ? nullptr : &mine.lists[class_of(bytes)];
  void* frame = nullptr;
  if (c == nullptr) {
    frame = ::operator new(bytes);
  } else if (c->head == nullptr) {
    frame = ::operator new((class_of(bytes) + 1) * granule);
  } else {
    frame = std::exchange(c->head, c->head->next);
    --c->count;
  }
  ++mine.outstanding;  // last: operator new may have thrown
  return frame;
}

void deallocate(void* frame, std::size_t bytes) noexcept {
  --mine.outstanding;
  if (bytes > largest) {
    ::operator delete(frame);
    return;
  }
  size_class& c = mine.lists[class_of(bytes)];
  if (c.count == kept) {
    ::operator delete(frame);
    return;
  }
  auto* f = static_cast<free_frame*>(frame);
  f->next = c.head;
  c.head = f;
  ++c.count;
}

std::int64_t outstanding() noexcept { return mine.outstanding; }
bool keeps_frames() noexcept { return kept > 0; }

}  // namespace cordma::frame_pool
