#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  volatile bool b = true;
  T t = b ? co_await g(1) : T{2};
  T u = !b ? co_await g(1) : T{2};
  (void)t;
  (void)u;
  co_return;
}
