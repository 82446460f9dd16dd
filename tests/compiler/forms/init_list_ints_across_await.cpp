#include "form.hpp"

task<int> f(std::vector<int> v) {
  co_await yield_{};
  co_return (int) v.size();
}
task<void> root() {
  int n = co_await f({1, 2, 3});
  if (n != 3) ++T::bad;
  co_return;
}
