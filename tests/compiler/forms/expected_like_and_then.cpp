#include "form.hpp"

template <class X>
struct R {
  std::optional<X> o;
  bool ok() const { return o.has_value(); }
  X take() { return std::move(*o); }
};
task<R<T>> g(int i) {
  co_await yield_{};
  if (i < 0) co_return R<T>{};
  co_return R<T>{T{i}};
}
task<void> root() {
  auto r = co_await g(1);
  if (!r.ok()) co_return;
  T t = r.take();
  auto r2 = co_await g(-1);
  if (!r2.ok()) co_return;
  co_return;
}
