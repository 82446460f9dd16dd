#include "form.hpp"

template <class X>
task<X> id(X x) {
  co_await yield_{};
  co_return std::move(x);
}
task<void> root() {
  T t = co_await id(T{4});
  if (t.v != 4) ++T::bad;
  int i = co_await id(3);
  (void)i;
  co_return;
}
