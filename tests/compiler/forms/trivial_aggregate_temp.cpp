#include "form.hpp"

struct A {
  int b = 3;
  long d = 4;
  const char* p = "q";
};
task<int> f(T t, A a) {
  co_await yield_{};
  co_return t.v + a.b + (int)a.d + (a.p[0] == 'q');
}
task<void> root() {
  int x = co_await f(T{1}, {.b = 5, .d = 6});
  if (x != 13) ++T::bad;
  int y = co_await f(T{1}, A{});
  if (y != 9) ++T::bad;
  co_return;
}
