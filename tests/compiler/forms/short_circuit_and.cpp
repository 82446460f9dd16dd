#include "form.hpp"

task<bool> g(T t) {
  co_await yield_{};
  co_return t.v > 0;
}
task<void> root() {
  if (co_await g(T{1}) && co_await g(T{0})) std::puts("wrong");
  if (co_await g(T{0}) || co_await g(T{1})) {}
  co_return;
}
