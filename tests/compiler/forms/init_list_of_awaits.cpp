#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  std::vector<T> v{co_await g(1), co_await g(2)};
  (void)v;
  co_return;
}
