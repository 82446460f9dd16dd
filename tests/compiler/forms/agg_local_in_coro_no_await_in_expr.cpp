#include "form.hpp"

struct P {
  T a;
  int b;
};
task<void> root() {
  P p{T{1}, 2};
  co_await yield_{};
  std::vector<P> v;
  v.push_back(P{T{2}, 3});
  v.push_back({T{2}, 3});
  co_await yield_{};
  co_return;
}
