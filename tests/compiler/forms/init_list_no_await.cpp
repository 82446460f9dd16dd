#include "form.hpp"

task<void> root() {
  std::vector<T> v{T{1}, T{2}};
  co_await yield_{};
  for (const T& t : {T{1}, T{2}}) {
    (void)t;
  }
  for (int i : {1, 2, 3}) {
    co_await yield_{};
    (void)i;
  }
  co_return;
}
