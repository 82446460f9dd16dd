#include "form.hpp"

struct P {
  T a;
  T b;
};
task<T> g(int i) {
  co_await yield_{};
  if (i == 2) throw 1;
  co_return T{i};
}
task<void> root() {
  try {
    P p{co_await g(1), co_await g(2)};
    (void)p;
  } catch (int) {}
  co_return;
}
