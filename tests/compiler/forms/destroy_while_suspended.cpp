#include "form.hpp"

task<int> f(T t) {
  T l{2};
  co_await yield_{};
  co_return t.v + l.v;
}
task<void> inner() {
  T a{1};
  int x = co_await f(T{3});
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
