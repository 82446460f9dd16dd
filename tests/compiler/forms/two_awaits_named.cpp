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
  T a = co_await g(1);
  T b = co_await g(2);
  P p{std::move(a), std::move(b)};
  (void)p;
  co_return;
}
