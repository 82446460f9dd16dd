#include "form.hpp"

struct A {
  T a;
  int b = 3;
};
task<int> f(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  int x = co_await f({.a = T{1}, .b = 4});
  (void)x;
  co_return;
}
