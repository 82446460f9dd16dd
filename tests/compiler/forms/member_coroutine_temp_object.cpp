#include "form.hpp"

struct O {
  T t{5};
  task<int> run() {
    co_await yield_{};
    co_return t.v;
  }
};
task<void> root() {
  int x = co_await O{}.run();
  if (x != 5) ++T::bad;
  co_return;
}
