#include "form.hpp"

task<int> f(T t) {
  co_await yield_{};
  co_return t.v;
}
task<void> root() {
  T t{1};
  int x = co_await f(std::move(t));
  (void)x;
  co_return;
}
