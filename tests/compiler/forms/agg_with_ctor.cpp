#include "form.hpp"

struct A {
  T a;
  int b;
  A(T x, int y) : a(std::move(x)), b(y) {}
};
task<int> f(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  int x = co_await f(A{T{1}, 2});
  int y = co_await f({T{1}, 2});
  (void)x;
  (void)y;
  co_return;
}
