#include <support/alloc_count.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> counted{0};

void* take(std::size_t bytes) {
  counted.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* take(std::size_t bytes, std::align_val_t alignment) {
  counted.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}

}  // namespace

std::uint64_t cordma::test::allocations() noexcept {
  return counted.load(std::memory_order_relaxed);
}

bool cordma::test::counts_allocations() noexcept {
  const std::uint64_t before = allocations();
  ::operator delete(::operator new(1));
  return allocations() != before;
}

// The nothrow and array forms of the standard library call these. Weak, because the sanitizers bring
// their own, which must win.
[[gnu::weak]] void* operator new(std::size_t bytes) { return take(bytes); }
[[gnu::weak]] void* operator new(std::size_t bytes, std::align_val_t a) { return take(bytes, a); }
[[gnu::weak]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
