// Ping-pong, by messages and by remote writes.
#include "../support/op_ring.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/sleep.hpp>

#include <atomic>

namespace perf {
namespace {

using send_ring = support::op_ring<cordma::send_operation>;

// Plain messages, and tagged ones.
struct plain {
  using recv_ring = support::op_ring<cordma::recv_operation>;
  using send_ring = support::op_ring<cordma::send_operation>;
  static cordma::recv_operation receive(lane& l, const cordma::Slice& into) {
    return l.endpoint.recv(into);
  }
  static cordma::send_operation send(lane& l, const cordma::Slice& from) {
    return l.endpoint.send(from);
  }
};
struct tagged {
  using recv_ring = support::op_ring<cordma::tag_recv_operation>;
  using send_ring = support::op_ring<cordma::message_send_operation>;
  static cordma::tag_recv_operation receive(lane& l, const cordma::Slice& into) {
    return l.other->endpoint.tag_recv(the_tag, into);
  }
  static cordma::message_send_operation send(lane& l, const cordma::Slice& from) {
    return l.other->endpoint.tag_send(the_tag, from);
  }
};

constexpr std::uint32_t sends_at_once = 2;  // one under way, one built

// There is a power of two of them.
std::uint64_t slot_of(const lane& l, std::uint64_t number) noexcept {
  return number & (l.slots - 1);
}

template <class Kind>
void post_receive(lane& l, typename Kind::recv_ring& ring, std::uint64_t i) {
  const cordma::Slice& into = l.in(slot_of(l, i));
  ring.start([&] { return Kind::receive(l, into); });
}

void check_received(lane& l, std::size_t bytes, std::uint64_t i) {
  const auto message = l.in(slot_of(l, i)).bytes();
  if (bytes != message.size() || !matches(message, i)) ++l.wrong;
}

// Where a message ends, its writer puts its number: in eight bytes, or in one where it has no more.
class flag {
 public:
  explicit flag(std::span<std::byte> message) noexcept
      : wide_(message.size() >= 8 && message.size() % 8 == 0),
        at_(message.data() + message.size() - (wide_ ? 8 : 1)) {}
  void set(std::uint64_t number) const noexcept {
    if (wide_) {
      word().store(number, std::memory_order_release);
    } else {
      byte().store(static_cast<std::uint8_t>(number), std::memory_order_release);
    }
  }
  [[nodiscard]] bool is(std::uint64_t number) const noexcept {
    if (wide_) return word().load(std::memory_order_acquire) == number;
    return byte().load(std::memory_order_acquire) == static_cast<std::uint8_t>(number);
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word() const noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at_));
  }
  [[nodiscard]] std::atomic_ref<std::uint8_t> byte() const noexcept {
    return std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(at_));
  }
  bool wide_;
  std::byte* at_;
};

// Requests are built while there is nothing to do but wait, and started when their turn comes.
template <class Kind>
void prepare_send(lane& l, typename Kind::send_ring& ring) {
  ring.prepare([&] { return Kind::send(l, l.out(0)); });
}

void prepare_write(lane& l, send_ring& ring, std::uint64_t number) {
  cordma::Endpoint& endpoint = l.endpoint;
  const cordma::Slice& from = l.out(slot_of(l, number));
  flag(from.bytes()).set(number);
  ring.prepare([&] { return endpoint.write(l.peer(0), from); });
}

template <class Kind>
cordma::task<void> ping(lane& l, std::uint64_t count) {
  typename Kind::recv_ring receives(l.slots);
  typename Kind::send_ring sends(sends_at_once);
  const bool check = l.what.check;
  for (std::uint64_t i = 0; i < l.slots && i < count; ++i) post_receive<Kind>(l, receives, i);
  prepare_send<Kind>(l, sends);
  std::uint64_t sent_at = ticks();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (check) fill(l.out(0).bytes(), i);
    sends.start_newest();
    // While the message travels: the next receive, the clock, the sample.
    if (i != 0) {
      const std::uint64_t next = i + l.slots - 1;  // of long messages this one, of others one more
      if (next < count) post_receive<Kind>(l, receives, next);
      const std::uint64_t now = ticks();
      l.samples.record(now - sent_at);
      sent_at = now;
      l.progress.store(i, std::memory_order_relaxed);
    }
    prepare_send<Kind>(l, sends);
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    receives.pop();
    auto& sent = sends.oldest();
    co_await sent;
    sends.pop();
    if (check) check_received(l, got.bytes, i);
  }
  if (count != 0) l.samples.record(ticks() - sent_at);
}

template <class Kind>
cordma::task<void> pong(lane& l, std::uint64_t count) {
  typename Kind::recv_ring receives(l.slots);
  typename Kind::send_ring sends(sends_at_once);
  const bool check = l.what.check;
  for (std::uint64_t i = 0; i < l.slots && i < count; ++i) post_receive<Kind>(l, receives, i);
  for (std::uint64_t i = 0; i < count; ++i) {
    prepare_send<Kind>(l, sends);
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    if (check) {
      check_received(l, got.bytes, i);
      fill(l.out(0).bytes(), i);
    }
    sends.start_newest();
    receives.pop();
    if (i + l.slots < count) post_receive<Kind>(l, receives, i + l.slots);
    auto& sent = sends.oldest();
    co_await sent;
    sends.pop();
  }
}

}  // namespace

cordma::task<void> send_and_wait(lane& l, std::uint64_t count) {
  return l.what.what == test::tag_lat ? ping<tagged>(l, count) : ping<plain>(l, count);
}

cordma::task<void> echo(lane& l, std::uint64_t count) {
  return l.what.what == test::tag_lat ? pong<tagged>(l, count) : pong<plain>(l, count);
}

cordma::task<void> send_wait_think(lane& l, std::uint64_t count) {
  plain::recv_ring receives(1);
  const auto pause = std::chrono::microseconds(l.what.think_us);
  for (std::uint64_t i = 0; i < count; ++i) {
    post_receive<plain>(l, receives, i);
    if (l.what.check) fill(l.out(0).bytes(), i);
    const std::uint64_t sent_at = ticks();
    cordma::send_operation send = l.endpoint.send(l.out(0));
    send.start();
    auto& oldest = receives.oldest();
    const cordma::Received got = co_await oldest;
    l.samples.record(ticks() - sent_at);
    receives.pop();
    co_await send;
    if (l.what.check) check_received(l, got.bytes, i);
    l.progress.store(i, std::memory_order_relaxed);
    co_await cordma::sleep_for(pause);
  }
}

cordma::task<void> write_and_look(lane& l, std::uint64_t count) {
  send_ring writes(l.slots);
  const flag mine(l.in(0).bytes());
  if (count != 0) prepare_write(l, writes, l.number + 1);
  std::uint64_t written_at = ticks();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = ++l.number;
    writes.start_newest();
    while (writes.full() || (!writes.empty() && writes.oldest().done())) {
      auto& oldest = writes.oldest();
      co_await oldest;
      writes.pop();
    }
    if (i != 0) {
      const std::uint64_t now = ticks();
      l.samples.record(now - written_at);
      written_at = now;
      l.progress.store(i, std::memory_order_relaxed);
    }
    if (i + 1 < count) prepare_write(l, writes, number + 1);
    for (int looks = 1; !mine.is(number); ++looks) {
      if (looks < l.looks_per_turn) continue;
      looks = 0;
      require_connected(l.endpoint);
      co_await cordma::yield();
    }
  }
  if (count != 0) l.samples.record(ticks() - written_at);
  while (!writes.empty()) {
    auto& oldest = writes.oldest();
    co_await oldest;
    writes.pop();
  }
}

cordma::task<void> look_and_write(lane& l, std::uint64_t count) {
  send_ring writes(l.slots);
  const flag mine(l.in(0).bytes());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = ++l.number;
    prepare_write(l, writes, number);
    for (int looks = 1; !mine.is(number); ++looks) {
      if (looks < l.looks_per_turn) continue;
      looks = 0;
      require_connected(l.endpoint);
      co_await cordma::yield();
    }
    writes.start_newest();
    while (writes.full() || (!writes.empty() && writes.oldest().done())) {
      auto& oldest = writes.oldest();
      co_await oldest;
      writes.pop();
    }
  }
  while (!writes.empty()) {
    auto& oldest = writes.oldest();
    co_await oldest;
    writes.pop();
  }
}

}  // namespace perf
