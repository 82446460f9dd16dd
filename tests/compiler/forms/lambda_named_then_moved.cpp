#include "form.hpp"

template <class F>
task<int> f(F fn) {
  co_await yield_{};
  co_return fn();
}
task<void> root() {
  T t{1};
  auto fn = [t = std::move(t)] { return t.v; };
  int x = co_await f(std::move(fn));
  (void)x;
  co_return;
}
