#include "form.hpp"

struct P {
  T a;
  int b;
};
task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<P> h() { co_return P{co_await g(1), 2}; }
task<void> root() {
  auto p = co_await h();
  (void)p;
  co_return;
}
