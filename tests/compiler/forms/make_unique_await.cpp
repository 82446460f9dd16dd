#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
struct P {
  T a;
  P(T x) : a(std::move(x)) {}
};
task<void> root() {
  auto p = std::make_unique<P>(co_await g(1));
  std::unique_ptr<P> q(new P(co_await g(2)));
  (void)p;
  (void)q;
  co_return;
}
