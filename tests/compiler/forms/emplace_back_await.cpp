#include "form.hpp"

task<T> g(int i) {
  co_await yield_{};
  co_return T{i};
}
task<void> root() {
  std::vector<T> v;
  v.push_back(co_await g(1));
  v.emplace_back(co_await g(2));
  std::map<int, T> m;
  m.emplace(1, co_await g(3));
  m.insert({2, co_await g(4)});
  co_return;
}
