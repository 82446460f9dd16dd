#include "form.hpp"

struct P {
  int a;
  int b;
};
task<int> g(int i) {
  co_await yield_{};
  co_return i;
}
task<void> root() {
  P p{co_await g(1), co_await g(2)};
  if (p.a != 1 || p.b != 2) ++T::bad;
  co_return;
}
