#include "form.hpp"

template <class... X>
task<int> sum(X... x) {
  co_await yield_{};
  co_return (x.v + ...);
}
task<void> root() {
  int s = co_await sum(T{1}, T{2}, T{3});
  if (s != 6) ++T::bad;
  co_return;
}
