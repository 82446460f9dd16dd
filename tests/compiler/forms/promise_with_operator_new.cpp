#include "form.hpp"

struct eager {
  struct promise_type {
    eager get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    static void* operator new(std::size_t n) { return std::malloc(n); }
    static void operator delete(void* p, std::size_t) noexcept { std::free(p); }
  };
};
eager f(T t) {
  co_await yield_{};
  (void)t.v;
}
eager g(std::string s) {
  try {
    co_await yield_{};
  } catch (...) {}
  (void)s.size();
}
task<void> root() {
  f(T{1});
  pending.resume();
  g("x");
  std::exchange(pending, {}).resume();
  co_return;
}
