// Many operations in flight: what limits is the transport, not the round trip.
#include "../support/op_ring.hpp"
#include "tests.hpp"

#include <algorithm>

namespace perf {
namespace {

// Keeps up to `outstanding` operations started, posting in batches: one doorbell for as many as have
// found room. `make(slot, i)` gives operation i; `look(slot, i, value)` sees its outcome.
template <class Operation, class Make, class Look>
cordma::task<void> keep_in_flight(lane& l, std::uint64_t count, Make make, Look look) {
  using value = typename Operation::value_type;
  support::op_ring<Operation> ring(l.what.outstanding);
  std::uint64_t started = 0;
  std::uint64_t done = 0;
  std::uint32_t start_slot = 0;
  std::uint32_t done_slot = 0;
  const std::uint32_t slots = l.slots;
  while (done < count) {
    {
      const cordma::Endpoint::Batch batch = l.carrier().batch();
      for (; started < count && !ring.full(); ++started) {
        ring.start([&] { return make(l, start_slot, started); });
        if (++start_slot == slots) start_slot = 0;
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

struct nothing {
  void operator()(const lane&, std::uint32_t, std::uint64_t) const noexcept {}
};

struct send_next {
  cordma::send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    if (l.what.check) fill(l.out(slot).bytes(), i);
    return l.endpoint.send(l.out(slot));
  }
};

struct tag_send_next {
  cordma::message_send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    if (l.what.check) fill(l.out(slot).bytes(), i);
    return l.other->endpoint.tag_send(the_tag, l.out(slot));
  }
};

struct write_next {
  cordma::send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    if (l.what.check) fill(l.out(slot).bytes(), i);
    return l.endpoint.write(l.peer(slot), l.out(slot));
  }
};

struct read_next {
  cordma::send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    if (l.what.check) fill(l.in(slot).bytes(), i + l.slots);  // not what is to arrive
    return l.endpoint.read(l.peer(slot), l.in(slot));
  }
};
struct read_done {
  void operator()(lane& l, std::uint32_t slot, std::uint64_t) const noexcept {
    if (l.what.check && !matches(l.in(slot).bytes(), slot)) ++l.wrong;
  }
};

struct add_next {
  cordma::atomic_operation operator()(lane& l, std::uint32_t, std::uint64_t) const {
    return l.endpoint.fetch_add(l.peer(0), 1);
  }
};
struct add_done {
  void operator()(lane& l, std::uint32_t, std::uint64_t i, std::uint64_t before) const noexcept {
    if (l.what.check && before != i) ++l.wrong;
  }
};

struct receive_next {
  cordma::recv_operation operator()(lane& l, std::uint32_t slot, std::uint64_t) const {
    return l.endpoint.recv(l.in(slot));
  }
};
struct tag_receive_next {
  cordma::tag_recv_operation operator()(lane& l, std::uint32_t slot, std::uint64_t) const {
    return l.other->endpoint.tag_recv(the_tag, l.in(slot));
  }
};
struct receive_done {
  template <class Got>
  void operator()(lane& l, std::uint32_t slot, std::uint64_t i, const Got& got) const noexcept {
    if (!l.what.check) return;
    const auto message = l.in(slot).bytes();
    if (got.bytes != message.size() || !matches(message, i)) ++l.wrong;
  }
};

}  // namespace

cordma::task<void> send_many(lane& l, std::uint64_t count) {
  if (l.what.what == test::tag_bw) {
    return keep_in_flight<cordma::message_send_operation>(l, count, tag_send_next(), nothing());
  }
  return keep_in_flight<cordma::send_operation>(l, count, send_next(), nothing());
}

cordma::task<void> receive_many(lane& l, std::uint64_t count) {
  if (l.what.what == test::tag_bw) {
    return keep_in_flight<cordma::tag_recv_operation>(l, count, tag_receive_next(), receive_done());
  }
  return keep_in_flight<cordma::recv_operation>(l, count, receive_next(), receive_done());
}

cordma::task<void> write_many(lane& l, std::uint64_t count) {
  co_await keep_in_flight<cordma::send_operation>(l, count, write_next(), nothing());
  co_await l.endpoint.flush();
}

cordma::task<void> read_many(lane& l, std::uint64_t count) {
  return keep_in_flight<cordma::send_operation>(l, count, read_next(), read_done());
}

cordma::task<void> fetch_add_many(lane& l, std::uint64_t count) {
  return keep_in_flight<cordma::atomic_operation>(l, count, add_next(), add_done());
}

}  // namespace perf
