#include <support/alloc_count.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> counted{0};
std::atomic<std::uint64_t> freed{0};
std::atomic<std::uint64_t> first_failing{0};  // allocations from this number on fail; 0: none
std::atomic<std::uint64_t> last_failing{0};

}  // namespace

std::uint64_t cordma::test::allocations() noexcept {
  return counted.load(std::memory_order_relaxed);
}

std::uint64_t cordma::test::live_allocations() noexcept {
  return allocations() - freed.load(std::memory_order_relaxed);
}

void cordma::test::fail_allocation(std::uint64_t n, failing how) noexcept {
  const std::uint64_t first = n == 0 ? 0 : counted.load(std::memory_order_relaxed) + n;
  last_failing.store(how == failing::once ? first : UINT64_MAX);
  first_failing.store(first);
}

bool cordma::test::allocation_failed() noexcept {
  return first_failing.load() != 0 && counted.load() >= first_failing.load();
}

#if !CORDMA_UNDER_TSAN
namespace {

void count() {
  const std::uint64_t number = counted.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t first = first_failing.load(std::memory_order_relaxed);
  if (first != 0 && number >= first && number <= last_failing.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
}

void* take(std::size_t bytes) {
  count();
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* take(std::size_t bytes, std::align_val_t alignment) {
  count();
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}

void give_back(void* p) noexcept {
  if (p != nullptr) freed.fetch_add(1, std::memory_order_relaxed);
  std::free(p);
}

}  // namespace

// The nothrow and array forms of the standard library call these; ASan sees malloc() below.
void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t a) { return take(bytes, a); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
#endif
