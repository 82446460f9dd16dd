#include "form.hpp"

template <class F>
task<int> f(F fn) {
  co_await yield_{};
  co_return fn();
}
task<void> root() {
  auto p = std::make_shared<T>(3);
  int x = co_await f([p] { return p->v; });
  if (x != 3) ++T::bad;
  if (p.use_count() != 1) ++T::bad;
  co_return;
}
