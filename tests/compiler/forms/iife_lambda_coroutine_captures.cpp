#include "form.hpp"

task<void> root() {
  T t{1};
  int x = co_await [t]() -> task<int> {
    co_await yield_{};
    co_return t.v;
  }();
  (void)x;
  co_return;
}
