// Many operations in flight: the transport limits the rate, not the round trip.
#pragma once

#include "../support/op_ring.hpp"
#include "lane.hpp"

#include <cordma/runtime/task.hpp>

#include <algorithm>

namespace perf {

// Keeps up to `outstanding` requests of `messages` operations each in flight. It posts in batches,
// with one doorbell for all operations that fit. `make(l, slot, i)` creates operation i; `look(l,
// slot, i, value)` receives its outcome.
template <class Operation, class Make, class Look>
cordma::task<void> keep_in_flight(lane& l, std::uint64_t count, Make make, Look look) {
  using value = typename Operation::value_type;
  const std::uint32_t window = l.what.window();
  support::op_ring<Operation> ring(window);
  std::uint64_t started = 0;
  std::uint64_t done = 0;
  std::uint32_t start_slot = 0;
  std::uint32_t done_slot = 0;
  const std::uint32_t slots = l.slots;
  const std::uint32_t group = l.what.messages;
  while (done < count) {
    {
      const cordma::Endpoint::Batch batch = l.endpoint().batch();
      while (started < count && window - (started - done) >= group) {
        const std::uint64_t end = std::min<std::uint64_t>(started + group, count);
        for (; started < end; ++started) {
          ring.start([&] { return make(l, start_slot, started); });
          if (++start_slot == slots) start_slot = 0;
        }
      }
    }
    do {
      if constexpr (std::is_void_v<value>) {
        auto& oldest = ring.oldest();
        co_await oldest;
        look(l, done_slot, done);
      } else {
        auto& oldest = ring.oldest();
        const value outcome = co_await oldest;
        look(l, done_slot, done, outcome);
      }
      ring.pop();
      ++done;
      if (++done_slot == slots) done_slot = 0;
    } while (!ring.empty() && ring.oldest().done());
    l.progress.store(done, std::memory_order_relaxed);
  }
}

// Ignores the outcome.
struct nothing {
  void operator()(const lane&, std::uint32_t, std::uint64_t) const noexcept {}
};

}  // namespace perf
