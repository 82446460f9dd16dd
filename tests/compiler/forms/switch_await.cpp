#include "form.hpp"

task<int> g(T t) {
  co_await yield_{};
  co_return t.v;
}
task<void> root() {
  switch (co_await g(T{2})) {
    case 2: {
      T u{1};
      co_await yield_{};
      break;
    }
    default: break;
  }
  co_return;
}
