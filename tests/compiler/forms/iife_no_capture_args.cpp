#include "form.hpp"

task<void> root() {
  int x = co_await [](T t) -> task<int> {
    co_await yield_{};
    co_return t.v;
  }(T{1});
  if (x != 1) ++T::bad;
  co_return;
}
