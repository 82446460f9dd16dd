#include "form.hpp"

template <class F>
task<int> f(F fn, T t) {
  co_await yield_{};
  co_return fn() + t.v;
}
task<void> root() {
  int x = co_await f([] { return 1; }, T{2});
  if (x != 3) ++T::bad;
  co_return;
}
