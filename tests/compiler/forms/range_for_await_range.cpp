#include "form.hpp"

task<std::vector<T>> g() {
  co_await yield_{};
  std::vector<T> v;
  v.emplace_back(1);
  v.emplace_back(2);
  co_return v;
}
task<void> root() {
  for (auto& t : co_await g()) {
    co_await yield_{};
    (void)t;
  }
  co_return;
}
