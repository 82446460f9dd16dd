#include "form.hpp"

template <class F>
task<int> f(F fn) {
  co_await yield_{};
  co_return fn();
}
task<void> root() {
  T c{1};
  int x = co_await f([&] { return c.v; });
  int y = co_await f([&c] { return c.v; });
  int k = 7;
  int z = co_await f([k] { return k; });
  if (x != 1 || y != 1 || z != 7) ++T::bad;
  co_return;
}
