#include "form.hpp"

struct B {
  virtual task<int> run(T t) = 0;
  virtual ~B() = default;
};
struct D : B {
  T m{2};
  task<int> run(T t) override {
    co_await yield_{};
    co_return t.v + m.v;
  }
};
task<void> root() {
  std::unique_ptr<B> b = std::make_unique<D>();
  int x = co_await b->run(T{1});
  if (x != 3) ++T::bad;
  co_return;
}
