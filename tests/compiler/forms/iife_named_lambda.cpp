#include "form.hpp"

task<void> root() {
  T t{1};
  auto l = [t]() -> task<int> {
    co_await yield_{};
    co_return t.v;
  };
  int x = co_await l();
  if (x != 1) ++T::bad;
  co_return;
}
