// Remote reads and atomics, one at a time.
#include "tests.hpp"
#include "ticks.hpp"

namespace perf {

cordma::task<void> read_each(lane& l, std::uint64_t count) {
  const cordma::Slice& into = l.in(0);
  const cordma::RemoteSlice& from = l.peer(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (l.what.check) fill(into.bytes(), i + 1);  // something else than what is to arrive
    const std::uint64_t started = ticks();
    co_await l.endpoint.read(from, into);
    l.samples.record(ticks() - started);
    if (l.what.check && !matches(into.bytes(), 0)) ++l.wrong;
    l.progress.store(i, std::memory_order_relaxed);
  }
}

cordma::task<void> fetch_add_each(lane& l, std::uint64_t count) {
  const cordma::RemoteSlice& word = l.peer(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t started = ticks();
    const std::uint64_t before = co_await l.endpoint.fetch_add(word, 1);
    l.samples.record(ticks() - started);
    if (l.what.check && before != i) ++l.wrong;
    l.progress.store(i, std::memory_order_relaxed);
  }
}

}  // namespace perf
