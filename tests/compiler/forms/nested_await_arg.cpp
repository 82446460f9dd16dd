#include "form.hpp"

task<T> g(T t) {
  co_await yield_{};
  co_return T{t.v + 1};
}
task<void> root() {
  T t = co_await g(co_await g(co_await g(T{1})));
  if (t.v != 4) ++T::bad;
  co_return;
}
