#include "form.hpp"

struct A {
  T a;
  int b;
};
task<int> f(const A& a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  int x = co_await f(A{T{1}, 2});
  (void)x;
  co_return;
}
