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
    // the next write may have replaced the message already
    if constexpr (std::is_same_v<Kind, imm>) {
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

template <class Kind>
struct act_next {
  auto operator()(lane& l, std::uint32_t slot, std::uint64_t i) const {
    return Kind::make(l, slot, i);
  }
};
template <class Kind>
struct act_done {
  template <class... Value>
  void operator()(lane& l, std::uint32_t slot, std::uint64_t i, Value... value) const noexcept {
    Kind::look(l, slot, i, value...);
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

template <class Kind>
task<void> act_all(lane& l, std::uint64_t count) {
  return keep_in_flight<typename Kind::operation>(l, count, act_next<Kind>(), act_done<Kind>());
}

}  // namespace

task<void> start_many(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return send_all<tagged>(l, count);
    case verb::write: return write_many(l, count);
    case verb::write_imm: return send_all<imm>(l, count);
    case verb::read: return act_all<reading>(l, count);
    case verb::fetch_add: return act_all<adding>(l, count);
    case verb::compare_swap: return act_all<swapping>(l, count);
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
  co_await drain(ring);
}

task<void> read_stream(lane& l, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await read_message(l, i);
}

}  // namespace perf
