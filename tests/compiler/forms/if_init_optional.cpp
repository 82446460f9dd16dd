#include "form.hpp"

task<std::optional<T>> g(int i) {
  co_await yield_{};
  co_return std::optional<T>(T{i});
}
task<void> root() {
  if (auto o = co_await g(1)) {
    co_await yield_{};
  } else {
    ++T::bad;
  }
  while (auto o = co_await g(1)) {
    break;
  }
  co_return;
}
