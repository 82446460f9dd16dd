#include "form.hpp"

task<int> g(int i) {
  co_await yield_{};
  co_return i;
}
task<void> root() {
  volatile bool b = true;
  int t = b ? co_await g(1) : 2;
  int u = !b ? co_await g(1) : 2;
  if (t != 1 || u != 2) ++T::bad;
  co_return;
}
