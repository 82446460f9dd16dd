#include "form.hpp"

task<int> f(const T& t) {
  co_await yield_{};
  co_return t.v;
}
task<void> root() {
  int x = co_await f(T{1});
  (void)x;
  co_return;
}
