#include "form.hpp"

struct A {
  T a;
  int b = 1;
};
task<int> f(A a = {}) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  int x = co_await f({});
  int y = co_await f(A{});
  int z = co_await f();
  int w = co_await f(A());
  if (x + y + z + w) ++T::bad;
  co_return;
}
