#include "form.hpp"

task<int> f(T t) {
  if (t.v) throw 1;
  co_return t.v;
}
task<void> root() {
  try {
    int x = co_await f(T{1});
    (void)x;
  } catch (int) {}
  co_return;
}
