#include "form.hpp"

struct A {
  T a;
  int b = 1;
};
task<int> f(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<void> root() {
  A a;
  a.a = T{4};
  int x = co_await f(std::move(a));
  if (x != 4) ++T::bad;
  co_return;
}
