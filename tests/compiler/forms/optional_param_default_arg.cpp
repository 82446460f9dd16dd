#include "form.hpp"

task<int> f(std::optional<T> t = T{9}, T u = T{8}) {
  co_await yield_{};
  co_return t->v + u.v;
}
task<void> root() {
  int x = co_await f();
  (void)x;
  co_return;
}
