#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
int h(T a, const T& b, T c) { return a.v + b.v + c.v; }
task<void> root() {
  int x = h(T{1}, co_await g(2), T{3});
  if (x != 6) ++T::bad;
  co_return;
}
