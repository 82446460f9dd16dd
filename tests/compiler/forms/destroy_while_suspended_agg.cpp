#include "form.hpp"

struct A {
  T a;
  int b;
};
task<int> f(A t) {
  T l{2};
  co_await yield_{};
  co_return t.a.v + l.v;
}
task<void> inner() {
  T a{1};
  int x = co_await f(A{T{3}, 1});
  (void)x;
}
task<void> root() {
  {
    auto t = inner();
    t.h.resume();
    pending = {};
  }
  co_return;
}
