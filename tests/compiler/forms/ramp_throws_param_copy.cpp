#include "form.hpp"

struct X {
  T t;
  X() {}
  X(X&& o) : t(std::move(o.t)) {
    if (arm) throw 1;
  }
  static inline bool arm = false;
};
task<int> f(T a, X x, T b) {
  co_await yield_{};
  co_return a.v + x.t.v + b.v;
}
task<void> root() {
  X x;
  X::arm = true;
  try {
    int n = co_await f(T{1}, std::move(x), T{2});
    (void)n;
  } catch (int) {}
  X::arm = false;
  co_return;
}
