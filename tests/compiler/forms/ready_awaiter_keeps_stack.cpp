#include "form.hpp"

// An available result takes no stack, neither by await_ready() nor by a false
// await_suspend().
struct ready_op {
  int v;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  int await_resume() const noexcept { return v; }
};
struct resumed_op {
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  int await_resume() const noexcept { return 1; }
};
task<void> root() {
  stack_probe probe;
  long sum = 0;
  for (int i = 0; i < 2000; ++i) {
    probe.touch();
    sum += co_await ready_op{i};
    sum += co_await resumed_op{};
  }
  if (sum == 0 || probe.grown() > 1000) ++T::bad;
}
