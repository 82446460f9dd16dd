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
  A a{T{1}, 2};
  int x = co_await f(std::move(a));
  (void)x;
  co_return;
}
