#include "form.hpp"

struct A {
  T a;
  int b;
};
A mk(int i) { return A{T{i}, 2}; }
task<int> f(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  int x = co_await f(mk(3));
  if (x != 3) ++T::bad;
  co_return;
}
