#include "form.hpp"

task<int> f(std::pair<T, int> p) {
  co_await yield_{};
  co_return p.first.v;
}
task<void> root() {
  int x = co_await f({T{1}, 2});
  (void)x;
  co_return;
}
