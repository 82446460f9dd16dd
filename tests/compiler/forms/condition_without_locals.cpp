#include "form.hpp"

task<bool> gi(int t) {
  co_await yield_{};
  co_return t > 0;
}
task<void> root() {
  if (!co_await gi(1)) std::puts("x");
}
