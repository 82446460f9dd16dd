#include "form.hpp"

struct E {
  T a;
};
task<int> f(int i) {
  co_await yield_{};
  if (i) throw E{T{1}};
  co_return i;
}
task<void> root() {
  try {
    int x = co_await f(1);
    (void)x;
  } catch (const E&) {}
  co_return;
}
