#include "form.hpp"

task<void> root() {
  T t{1};
  int x = co_await [&]() -> task<int> {
    co_await yield_{};
    co_return t.v;
  }();
  if (x != 1) ++T::bad;
  co_return;
}
