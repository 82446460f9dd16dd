#include "form.hpp"

task<bool> g(T t) {
  co_await yield_{};
  co_return t.v > 0;
}
task<void> root() {
  int n = 3;
  while (co_await g(T{n})) --n;
  co_return;
}
