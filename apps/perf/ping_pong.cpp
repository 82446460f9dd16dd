// Ping-pong by messages that match a receive, and by a stream.
#include "kinds.hpp"
#include "tests.hpp"
#include "ticks.hpp"

namespace perf {
namespace {

using cordma::task;

constexpr std::uint32_t sends_at_once = 2;  // one in flight, one prepared

// The number of slots is a power of two.
std::uint64_t slot_of(const lane& l, std::uint64_t number) noexcept {
  return number & (l.slots - 1);
}

template <class Kind>
void post_receive(lane& l, typename Kind::recv_ring& ring, std::uint64_t i) {
  ring.start([&] { return Kind::receive(l, slot_of(l, i)); });
}

template <class Kind>
void check_received(lane& l, std::size_t bytes, std::uint64_t i) {
  // Remote writes always go to the first buffer.
  const std::uint64_t slot = std::is_same_v<Kind, imm> ? 0 : slot_of(l, i);
  const auto message = l.in(slot).bytes();
  if (bytes != message.size() || !matches(message, i)) ++l.wrong;
}

// Prepares a request during a wait; it is started later.
template <class Kind>
void prepare_send(lane& l, typename Kind::send_ring& ring, std::uint64_t i) {
  ring.prepare([&] { return Kind::send(l, 0, i); });
}

template <class Kind>
task<void> ping(lane& l, std::uint64_t count) {
  typename Kind::recv_ring receives(l.slots);
  typename Kind::send_ring sends(sends_at_once);
  const bool check = l.what.check;
  for (std::uint64_t i = 0; i < l.slots && i < count; ++i) post_receive<Kind>(l, receives, i);
  prepare_send<Kind>(l, sends, 0);
  std::uint64_t sent_at = ticks();
  for (std::uint64_t i = 0; i < count; ++i) {
    l.fill_out(0, i);
    sends.start_newest();
    // While the message is in flight: posts the next receive, reads the clock, records the sample.
    if (i != 0) {
      // the current message for long messages, else the next one
      const std::uint64_t next = i + l.slots - 1;
      if (next < count) post_receive<Kind>(l, receives, next);
      const std::uint64_t now = ticks();
      l.samples.record(now - sent_at);
      sent_at = now;
      l.progress.store(i, std::memory_order_relaxed);
    }
    prepare_send<Kind>(l, sends, i + 1);
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    receives.pop();
    auto& sent = sends.oldest();
    co_await sent;
    sends.pop();
    if (check) check_received<Kind>(l, got.bytes, i);
  }
  if (count != 0) l.samples.record(ticks() - sent_at);
}

// Likewise, with a pause after each round trip.
template <class Kind>
task<void> ping_and_think(lane& l, std::uint64_t count) {
  typename Kind::recv_ring receives(1);
  typename Kind::send_ring sends(1);
  for (std::uint64_t i = 0; i < count; ++i) {
    receives.start([&] { return Kind::receive(l, 0); });
    l.fill_out(0, i);
    const std::uint64_t began = l.begin_request();
    sends.start([&] { return Kind::send(l, 0, i); });
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    l.end_request(began);
    receives.pop();
    auto& sent = sends.oldest();
    co_await sent;
    sends.pop();
    const auto message = l.in(0).bytes();
    if (l.what.check && (got.bytes != message.size() || !matches(message, i))) ++l.wrong;
    l.progress.store(i, std::memory_order_relaxed);
    co_await l.think();
  }
}

template <class Kind>
task<void> pong(lane& l, std::uint64_t count) {
  typename Kind::recv_ring receives(l.slots);
  typename Kind::send_ring sends(sends_at_once);
  const bool check = l.what.check;
  for (std::uint64_t i = 0; i < l.slots && i < count; ++i) post_receive<Kind>(l, receives, i);
  for (std::uint64_t i = 0; i < count; ++i) {
    prepare_send<Kind>(l, sends, i);
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    if (check) {
      check_received<Kind>(l, got.bytes, i);
      l.fill_out(0, i);
    }
    stall_if_due(l, i);
    sends.start_newest();
    receives.pop();
    if (i + l.slots < count) post_receive<Kind>(l, receives, i + l.slots);
    auto& sent = sends.oldest();
    co_await sent;
    sends.pop();
  }
}

template <class Kind>
task<void> ping_any(lane& l, std::uint64_t count) {
  return l.thinks() ? ping_and_think<Kind>(l, count) : ping<Kind>(l, count);
}

}  // namespace

task<void> send_and_wait(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return ping_any<tagged>(l, count);
    case verb::write_imm: return ping_any<imm>(l, count);
    default: return ping_any<plain>(l, count);
  }
}

task<void> echo(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return pong<tagged>(l, count);
    case verb::write_imm: return pong<imm>(l, count);
    default: return pong<plain>(l, count);
  }
}

task<void> read_message(lane& l, std::uint64_t i) {
  const std::span<std::byte> message = l.in(i % l.slots).bytes();
  std::size_t done = 0;
  while (done < message.size()) {
    const std::size_t got = co_await l.stream.read_some(message.subspan(done));
    if (got == 0) cordma::throw_error({cordma::errc::truncated, "the stream ended"});
    done += got;
  }
  if (l.what.check && !matches(message, i)) ++l.wrong;
}

task<void> write_and_read(lane& l, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    l.fill_out(0, i);
    const std::uint64_t began = l.begin_request();
    cordma::stream_write_operation written = l.stream.write(l.out(0));
    written.start();
    co_await read_message(l, i);
    l.end_request(began);
    co_await written;
    l.progress.store(i, std::memory_order_relaxed);
    if (l.thinks()) co_await l.think();
  }
}

task<void> read_and_write(lane& l, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    co_await read_message(l, i);
    l.fill_out(0, i);
    stall_if_due(l, i);
    co_await l.stream.write(l.out(0));
  }
}

}  // namespace perf
