#include "form.hpp"

task<T> g(T t) {
  co_await yield_{};
  co_return T{t.v};
}
task<void> root() {
  volatile bool b = true;
  T t = co_await g(b ? T{1} : T{2});
  (void)t;
  co_return;
}
