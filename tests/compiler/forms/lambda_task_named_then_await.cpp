#include "form.hpp"

template <class F>
task<int> f(F fn) {
  co_await yield_{};
  co_return fn();
}
task<void> root() {
  T c{1};
  auto t = f([c] { return c.v; });
  int x = co_await t;
  if (x != 1) ++T::bad;
  co_return;
}
