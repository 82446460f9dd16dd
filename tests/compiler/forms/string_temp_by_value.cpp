#include "form.hpp"

task<int> f(std::string s, T t) {
  co_await yield_{};
  co_return (int) s.size() + t.v;
}
task<void> root() {
  int x = co_await f(std::string(100, 'a') + "b", T{1});
  if (x != 102) ++T::bad;
  co_return;
}
