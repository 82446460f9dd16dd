#include "form.hpp"

task<void> g() {
  co_await yield_{};
  co_await yield_{};
}
task<void> root() {
  co_await g();
  co_await g();
  co_return;
}
