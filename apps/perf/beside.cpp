// Active messages and streams: what goes over a connection of its own.
#include "../support/op_ring.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/when_any.hpp>

#include <algorithm>

namespace perf {

namespace {

cordma::message_send_operation call(lane& l) {
  constexpr std::span<const std::byte> no_header;
  return l.other->endpoint.am_send(the_handler, no_header, l.out(0));
}

// A peer that has gone answers no more.
cordma::task<void> until_finished(beside& b) {
  while (b.to_handle != 0 && !b.failed) {
    require_connected(b.endpoint);
    co_await cordma::when_any(b.finished.wait(), b.endpoint.state_changed());
  }
  if (b.failed) cordma::throw_error(*b.failed);
}

// The client's: how long a round trip took.
void record_time(lane& l, beside& b) {
  const std::uint64_t now = ticks();
  l.samples.record(now - b.sent_at);
  b.sent_at = now;
  l.progress.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

cordma::task<void> answer(lane* l, cordma::ActiveMessage m) {
  beside& b = *l->other;
  std::span<const std::byte> message = m.data();
  if (message.size() != m.size()) {
    co_await m.read(l->in(0));
    message = l->in(0).bytes();
  }
  const std::uint64_t number = b.handled++;
  if (l->what.check && !matches(message, number)) ++l->wrong;
  const bool last = --b.to_handle == 0;
  const bool asks = b.sent_at != 0;
  if (asks) record_time(*l, b);
  if (!asks || !last) {
    if (l->what.check) fill(l->out(0).bytes(), asks ? number + 1 : number);
    const cordma::result<void> sent = co_await call(*l).result();
    if (!sent) b.failed = sent.why();
  }
  if (last || b.failed) b.finished.set();
}

cordma::task<void> call_first(lane& l, std::uint64_t count) {
  beside& b = *l.other;
  b.to_handle = static_cast<std::int64_t>(count);
  if (count == 0) co_return;
  if (l.what.check) fill(l.out(0).bytes(), b.handled);
  b.sent_at = ticks();
  co_await call(l);
  co_await until_finished(b);
}

// The first may be here before this begins.
cordma::task<void> answer_all(lane& l, std::uint64_t count) {
  l.other->to_handle += static_cast<std::int64_t>(count);
  co_await until_finished(*l.other);
}

cordma::task<void> write_stream(lane& l, std::uint64_t count) {
  cordma::Stream& s = l.other->stream;
  support::op_ring<cordma::stream_write_operation> ring(l.what.outstanding);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (ring.full()) {
      cordma::stream_write_operation& oldest = ring.oldest();
      co_await oldest;
      ring.pop();
    }
    const cordma::Slice& message = l.out(i % l.slots);
    if (l.what.check) fill(message.bytes(), i);
    ring.start([&] { return s.write(message); });
    l.progress.store(i, std::memory_order_relaxed);
  }
  while (!ring.empty()) {
    cordma::stream_write_operation& oldest = ring.oldest();
    co_await oldest;
    ring.pop();
  }
}

cordma::task<void> read_stream(lane& l, std::uint64_t count) {
  cordma::Stream& s = l.other->stream;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::span<std::byte> message = l.in(i % l.slots).bytes();
    std::size_t done = 0;
    while (done < message.size()) {
      const std::size_t got = co_await s.read_some(message.subspan(done));
      if (got == 0) cordma::throw_error({cordma::errc::truncated, "the stream ended"});
      done += got;
    }
    if (l.what.check && !matches(message, i)) ++l.wrong;
  }
}

}  // namespace perf
