#include "form.hpp"

task<std::tuple<T, T>> g() {
  co_await yield_{};
  co_return std::tuple<T, T>{T{1}, T{2}};
}
task<void> root() {
  for (int i = 0; i < 3; ++i) {
    auto [a, b] = co_await g();
    co_await yield_{};
    (void)a;
    (void)b;
  }
  co_return;
}
