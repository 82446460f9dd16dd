#include "form.hpp"

struct kill_ {
  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { h.destroy(); }
  void await_resume() noexcept {}
};
struct eager {
  struct promise_type {
    eager get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};
eager f(T t) {
  T l{2};
  co_await kill_{};
}
task<void> root() {
  f(T{1});
  co_return;
}
