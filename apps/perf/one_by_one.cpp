// Remote reads and atomics, one at a time.
#include "kinds.hpp"
#include "tests.hpp"

namespace perf {
namespace {

using cordma::task;

template <class Kind>
task<void> each(lane& l, std::uint64_t count) {
  using value = typename Kind::operation::value_type;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t began = l.begin_request();
    typename Kind::operation one = Kind::make(l, 0, i);
    if constexpr (std::is_void_v<value>) {
      co_await one;
      l.end_request(began);
      Kind::look(l, 0, i);
    } else {
      const value before = co_await one;
      l.end_request(began);
      Kind::look(l, 0, i, before);
    }
    l.progress.store(i, std::memory_order_relaxed);
    if (l.thinks()) co_await l.think();
  }
}

}  // namespace

task<void> one_by_one(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::fetch_add: return each<adding>(l, count);
    case verb::compare_swap: return each<swapping>(l, count);
    default: return each<reading>(l, count);
  }
}

}  // namespace perf
