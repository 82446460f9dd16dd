#include "form.hpp"

struct Op {
  T t;
  Op(int n) : t(n) {}
  Op(Op&&) = delete;
  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { pending = h; }
  int await_resume() noexcept { return t.v; }
};
struct Ep {
  Op read(int n) { return Op(n); }
};
task<void> root() {
  Ep e;
  int x = co_await e.read(6);
  if (x != 6) ++T::bad;
  co_return;
}
