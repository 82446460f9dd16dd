#include "form.hpp"

struct P {
  T a;
  int b;
};
task<P> g() {
  co_await yield_{};
  co_return P{T{1}, 2};
}
task<void> root() {
  auto p = co_await g();
  (void)p;
  co_return;
}
