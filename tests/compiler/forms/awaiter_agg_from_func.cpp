#include "form.hpp"

struct Op {
  T buf;
  int len;
  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { pending = h; }
  int await_resume() noexcept { return len; }
};
Op op(T t, int n) { return Op{std::move(t), n}; }
task<void> root() {
  int n = co_await op(T{1}, 7);
  if (n != 7) ++T::bad;
  co_return;
}
