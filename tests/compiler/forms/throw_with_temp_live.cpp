#include "form.hpp"

task<int> f(const T& t, T u) {
  co_await yield_{};
  throw t.v;
  co_return u.v;
}
task<void> root() {
  try {
    int x = co_await f(T{1}, T{2});
    (void)x;
  } catch (int) {}
  co_return;
}
