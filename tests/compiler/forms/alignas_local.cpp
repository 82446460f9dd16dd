#include "form.hpp"

#include <cstdint>

// An over-aligned local is aligned in the frame too, at any address that malloc returns.
struct alignas(64) L {
  char c[64];
};
task<void> one() {
  L l;
  co_await yield_{};
  if (reinterpret_cast<std::uintptr_t>(&l) % 64) ++T::bad;
}
task<void> root() {
  std::vector<std::unique_ptr<char[]>> gaps;
  for (std::size_t i = 0; i < 50; ++i) {
    gaps.push_back(std::make_unique<char[]>(16 + i * 8));
    co_await one();
  }
}
