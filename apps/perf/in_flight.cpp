#include "in_flight.hpp"

#include "kinds.hpp"
#include "tests.hpp"

namespace perf {
namespace {

using cordma::task;

template <class Kind>
struct send_next {
  auto operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    l.fill_out(slot, i);
    return Kind::send(l, slot, i);
  }
};

template <class Kind>
struct receive_next {
  auto operator()(lane& l, std::uint32_t slot, std::uint64_t) const {
    return Kind::receive(l, slot);
  }
};
template <class Kind>
struct receive_done {
  template <class Got>
  void operator()(lane& l, std::uint32_t slot, std::uint64_t i, const Got& got) const noexcept {
    if (!l.what.check) return;
    const auto message = l.in(slot).bytes();
    bool right = got.bytes == message.size();
    if constexpr (std::is_same_v<Kind, imm>) {  // the next write may be there already
      right = right && got.has_imm && got.imm == static_cast<std::uint32_t>(i);
    } else {
      right = right && matches(message, i);
    }
    if (!right) ++l.wrong;
  }
};

struct write_next {
  cordma::send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    l.fill_out(slot, i);
    return l.endpoint().write(l.peer_in(slot), l.out(slot));
  }
};

struct read_next {
  cordma::send_operation operator()(lane& l, std::uint32_t slot, std::uint64_t) const {
    if (l.what.check) spoil(l.in(slot).bytes(), slot);
    return l.endpoint().read(l.peer_out(slot), l.in(slot));
  }
};
struct read_done {
  void operator()(lane& l, std::uint32_t slot, std::uint64_t) const noexcept {
    if (l.what.check && !matches(l.in(slot).bytes(), slot)) ++l.wrong;
  }
};

struct add_next {
  cordma::atomic_operation operator()(lane& l, std::uint32_t, std::uint64_t) const {
    return l.endpoint().fetch_add(l.peer_in(0), 1);
  }
};
struct swap_next {
  cordma::atomic_operation operator()(lane& l, std::uint32_t, std::uint64_t i) const {
    return l.endpoint().compare_swap(l.peer_in(0), i, i + 1);
  }
};
struct atomic_done {
  void operator()(lane& l, std::uint32_t, std::uint64_t i, std::uint64_t before) const noexcept {
    if (l.what.check && before != i) ++l.wrong;
  }
};

task<void> write_many(lane& l, std::uint64_t count) {
  co_await keep_in_flight<cordma::send_operation>(l, count, write_next(), nothing());
  co_await l.endpoint().flush();
}

template <class Kind>
task<void> receive_all(lane& l, std::uint64_t count) {
  using operation = decltype(Kind::receive(l, 0));
  return keep_in_flight<operation>(l, count, receive_next<Kind>(), receive_done<Kind>());
}

template <class Kind>
task<void> send_all(lane& l, std::uint64_t count) {
  using operation = decltype(Kind::send(l, 0, 0));
  return keep_in_flight<operation>(l, count, send_next<Kind>(), nothing());
}

}  // namespace

task<void> start_many(lane& l, std::uint64_t count) {
  using cordma::atomic_operation;
  using cordma::send_operation;
  switch (l.what.facts().what) {
    case verb::tag: return send_all<tagged>(l, count);
    case verb::write: return write_many(l, count);
    case verb::write_imm: return send_all<imm>(l, count);
    case verb::read: return keep_in_flight<send_operation>(l, count, read_next(), read_done());
    case verb::fetch_add:
      return keep_in_flight<atomic_operation>(l, count, add_next(), atomic_done());
    case verb::compare_swap:
      return keep_in_flight<atomic_operation>(l, count, swap_next(), atomic_done());
    default: return send_all<plain>(l, count);
  }
}

task<void> receive_many(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return receive_all<tagged>(l, count);
    case verb::write_imm: return receive_all<imm>(l, count);
    default: return receive_all<plain>(l, count);
  }
}

task<void> write_stream(lane& l, std::uint64_t count) {
  const std::uint32_t window = l.what.window();
  support::op_ring<cordma::stream_write_operation> ring(window);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (ring.full()) {
      auto& oldest = ring.oldest();
      co_await oldest;
      ring.pop();
    }
    const cordma::Slice& message = l.out(i % l.slots);
    l.fill_out(i % l.slots, i);
    ring.start([&] { return l.stream.write(message); });
    l.progress.store(i, std::memory_order_relaxed);
  }
  while (!ring.empty()) {
    auto& oldest = ring.oldest();
    co_await oldest;
    ring.pop();
  }
}

task<void> read_stream(lane& l, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::span<std::byte> message = l.in(i % l.slots).bytes();
    std::size_t done = 0;
    while (done < message.size()) {
      const std::size_t got = co_await l.stream.read_some(message.subspan(done));
      if (got == 0) cordma::throw_error({cordma::errc::truncated, "the stream ended"});
      done += got;
    }
    if (l.what.check && !matches(message, i)) ++l.wrong;
  }
}

}  // namespace perf
