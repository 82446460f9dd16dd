#include "form.hpp"

task<void> root() {
  for (const T& t : {T{1}, T{2}}) {
    co_await yield_{};
    (void)t;
  }
  co_return;
}
