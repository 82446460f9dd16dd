#include "form.hpp"

// GCC PR 106188: a condition in a coroutine without local variables, resumed inside await_suspend.
struct eager {
  struct promise_type {
    eager get_return_object() { return {}; }
    void return_void() {}
    void unhandled_exception() {}
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
  };
};
struct resume_now {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> h) { h.resume(); }
  int await_resume() { return 1; }
};
int ran = 0;
eager f() {
  if (co_await resume_now{}) {
    ++ran;
  }
}
task<void> root() {
  f();
  if (ran != 1) ++T::bad;
  co_return;
}
