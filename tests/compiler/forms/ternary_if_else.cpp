#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  volatile bool b = true;
  std::optional<T> t;
  if (b)
    t = co_await g(1);
  else
    t.emplace(2);
  co_return;
}
