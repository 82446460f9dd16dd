#include "form.hpp"

task<bool> positive(int i) {
  co_await yield_{};
  co_return i > 0;
}
int count = 0;
task<void> sub(int p) {
  (p) ? (void)++count : (void)0;
  co_await positive(1);
}
task<void> root() {
  auto t = sub(1);
  co_await t;
  if (count != 1) ++T::bad;
}
