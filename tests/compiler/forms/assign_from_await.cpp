#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  T t;
  t = co_await g(1);
  std::optional<T> o;
  o = co_await g(2);
  o.emplace(co_await g(3));
  co_return;
}
