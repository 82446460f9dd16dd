#include "form.hpp"

struct A {
  std::string s = std::string(64, 'q');
  int b = 1;
};
task<int> f(A a) {
  co_await yield_{};
  co_return (int) a.s.size();
}
task<void> root() {
  int x = co_await f({.b = 3});
  if (x != 64) ++T::bad;
  co_return;
}
