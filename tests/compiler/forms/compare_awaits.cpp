#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  bool b = (co_await g(1)).v < (co_await g(2)).v;
  if (!b) ++T::bad;
  co_return;
}
