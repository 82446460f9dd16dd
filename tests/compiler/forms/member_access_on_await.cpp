#include "form.hpp"

struct P {
  T a;
  T b;
};
task<P> g() {
  co_await yield_{};
  co_return P{T{1}, T{2}};
}
task<void> root() {
  int v = (co_await g()).a.v;
  T t = (co_await g()).b;
  if (v != 1 || t.v != 2) ++T::bad;
  co_return;
}
