// Active messages: each message runs a handler at the peer.
#include "in_flight.hpp"
#include "kinds.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/when_any.hpp>

namespace perf {
namespace {

using cordma::task;

cordma::message_send_operation call(lane& l, std::uint64_t slot) {
  constexpr std::span<const std::byte> no_header;
  return l.endpoint().am_send(the_handler, no_header, l.out(slot));
}

struct call_next {
  cordma::message_send_operation operator()(lane& l, std::uint64_t slot, std::uint64_t i) const {
    l.fill_out(slot, l.number + i);
    return call(l, slot);
  }
};

// Also ends if the peer disconnects, as no further response can arrive then.
task<void> until_finished(lane& l) {
  handling& h = l.handler;
  while (h.left > 0 && !h.failed) {
    require_connected(l.endpoint());
    co_await cordma::when_any(h.finished.wait(), l.endpoint().state_changed());
  }
  if (h.failed) cordma::throw_error(*h.failed);
  co_await drain(l.answers());
}

// Records the time of a round trip. Client only.
void record_time(lane& l) {
  const std::uint64_t now = ticks();
  l.samples.record(now - l.handler.sent_at);
  l.handler.sent_at = now;
  l.progress.fetch_add(1, std::memory_order_relaxed);
}

// Sends the next message of this lane from the handler, which cannot wait for it. Only one is in
// flight at a time, so at most the last of the previous sends is incomplete.
void answer_at_once(lane& l, std::uint64_t number) {
  handling& h = l.handler;
  auto& under_way = l.answers();
  while (!under_way.empty() && under_way.oldest().done()) {
    const cordma::result<void> sent = under_way.oldest().take_result();
    if (!sent) h.failed = sent.why();
    under_way.pop();
  }
  l.fill_out(0, number);
  under_way.start([&] { return call(l, 0); });
}

}  // namespace

void handle_short(lane* l, const cordma::ShortMessage& m) {
  handling& h = l->handler;
  const std::uint64_t number = h.handled++;
  if (l->what.check && !matches(m.data, number)) ++l->wrong;
  const bool last = --h.left == 0;
  if (h.answers) {
    stall_if_due(*l, number);
    const bool asks = h.sent_at != 0;
    if (asks) record_time(*l);
    if (!asks || !last) answer_at_once(*l, asks ? number + 1 : number);
  }
  if (last || h.failed) h.finished.set();
}

task<void> handle(lane* l, cordma::ActiveMessage m) {
  handling& h = l->handler;
  const std::uint64_t number = h.handled++;
  std::span<const std::byte> message = m.data();
  if (message.size() != m.size()) {
    const cordma::Slice& into = l->in(number % l->slots);
    co_await m.read(into);
    message = into.bytes();
  }
  if (l->what.check && !matches(message, number)) ++l->wrong;
  const bool last = --h.left == 0;
  if (h.answers) {
    stall_if_due(*l, number);
    const bool asks = h.sent_at != 0;
    if (asks) record_time(*l);
    if (asks && l->thinks() && !last) {
      l->ended_at = h.sent_at;  // when the previous response arrived
      co_await l->think();
      h.sent_at = l->begin_request();
    }
    if (!asks || !last) {
      l->fill_out(0, asks ? number + 1 : number);
      const cordma::result<void> sent = co_await call(*l, 0).result();
      if (!sent) h.failed = sent.why();
    }
  }
  if (last || h.failed) h.finished.set();
}

task<void> call_first(lane& l, std::uint64_t count) {
  handling& h = l.handler;
  h.left = static_cast<std::int64_t>(count);
  if (count == 0) co_return;
  l.fill_out(0, h.handled);
  h.sent_at = ticks();
  co_await call(l, 0);
  co_await until_finished(l);
}

// The first message may arrive before this begins.
task<void> answer_all(lane& l, std::uint64_t count) {
  l.handler.left += static_cast<std::int64_t>(count);
  co_await until_finished(l);
}

// The peer's handler counts across all phases.
task<void> call_many(lane& l, std::uint64_t count) {
  co_await keep_in_flight<cordma::message_send_operation>(l, count, call_next(), nothing());
  l.number += count;
}

}  // namespace perf
