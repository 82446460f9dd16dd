#include "form.hpp"

struct A {
  T a;
  int b;
};
task<int> f_impl(A a) {
  co_await yield_{};
  co_return a.a.v;
}
task<int> f(T a, int b) { return f_impl(A{std::move(a), b}); }
task<void> root() {
  int x = co_await f(T{1}, 2);
  if (x != 1) ++T::bad;
  co_return;
}
