// Remote reads and atomics, one at a time.
#include "tests.hpp"

namespace perf {
namespace {

using cordma::task;

task<void> read_each(lane& l, std::uint64_t count) {
  const cordma::Slice& into = l.in(0);
  const cordma::RemoteSlice& from = l.peer_out(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (l.what.check) spoil(into.bytes(), 0);
    const std::uint64_t began = l.begin_request();
    co_await l.endpoint().read(from, into);
    l.end_request(began);
    if (l.what.check && !matches(into.bytes(), 0)) ++l.wrong;
    l.progress.store(i, std::memory_order_relaxed);
    if (l.thinks()) co_await l.think();
  }
}

struct add {
  static cordma::atomic_operation make(lane& l, std::uint64_t) {
    return l.endpoint().fetch_add(l.peer_in(0), 1);
  }
};
struct swap {
  static cordma::atomic_operation make(lane& l, std::uint64_t i) {
    return l.endpoint().compare_swap(l.peer_in(0), i, i + 1);
  }
};

template <class Atomic>
task<void> change_each(lane& l, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t began = l.begin_request();
    const std::uint64_t before = co_await Atomic::make(l, i);
    l.end_request(began);
    if (l.what.check && before != i) ++l.wrong;
    l.progress.store(i, std::memory_order_relaxed);
    if (l.thinks()) co_await l.think();
  }
}

}  // namespace

task<void> one_by_one(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::fetch_add: return change_each<add>(l, count);
    case verb::compare_swap: return change_each<swap>(l, count);
    default: return read_each(l, count);
  }
}

}  // namespace perf
