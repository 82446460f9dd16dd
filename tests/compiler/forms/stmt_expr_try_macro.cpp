#include "form.hpp"

task<std::optional<T>> g(int i) {
  co_await yield_{};
  if (i) co_return std::optional<T>(T{i});
  co_return std::optional<T>();
}
#define CO_TRY(e)       \
  ({                    \
    auto _r = (e);      \
    if (!_r) co_return; \
    std::move(*_r);     \
  })
task<void> root() {
  T a = CO_TRY(co_await g(1));
  T b = CO_TRY(co_await g(0));
  (void)a;
  (void)b;
  co_return;
}
