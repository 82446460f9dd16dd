#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  if (auto t = co_await g(1); t.v) {
    co_await yield_{};
  }
  co_return;
}
