#include "form.hpp"

template <class F>
task<int> f(F fn) {
  co_await yield_{};
  co_return fn();
}
task<void> root() {
  T t{1};
  int x = co_await f([t] { return t.v; });
  (void)x;
  co_return;
}
