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
  int x = co_await f({T{1}, 2});
  (void)x;
  co_return;
}
