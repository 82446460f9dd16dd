#include "form.hpp"

struct P {
  T a;
  T b;
};
task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  P p{co_await g(1), co_await g(2)};
  (void)p;
  co_return;
}
