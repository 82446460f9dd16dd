#include "form.hpp"

task<int> f(std::vector<T> v) {
  co_await yield_{};
  co_return (int) v.size();
}
task<void> root() {
  int n = co_await f({T{1}, T{2}});
  (void)n;
  co_return;
}
