#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  if (i > 1) throw std::string(40, 'e');
  co_return T{i};
}
task<void> root() {
  for (int i = 0; i < 4; ++i) {
    T l{i};
    try {
      T t = co_await g(i);
      (void)t;
    } catch (const std::string& s) {
      if (s.size() != 40) ++T::bad;
      continue;
    }
    co_await yield_{};
  }
  co_return;
}
