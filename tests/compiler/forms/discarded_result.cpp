#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  co_await g(1);
  (void)co_await g(2);
  co_return;
}
