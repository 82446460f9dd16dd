#include "form.hpp"

task<int> f(T t) {
  co_await yield_{};
  co_return t.v;
}
task<void> root() {
  { auto t = f(T{1}); }
  co_return;
}
