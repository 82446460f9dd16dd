#include "form.hpp"

struct A {
  T a;
  int b;
};
task<int> f(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  auto t = f(A{T{1}, 2});
  int x = co_await t;
  if (x != 1) ++T::bad;
  co_return;
}
