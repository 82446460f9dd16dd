// Active messages and streams: what goes over a connection of its own.
#include "tests.hpp"
#include "ticks.hpp"

#include <algorithm>

namespace perf {

cordma::task<void> call_and_wait(lane& l, std::uint64_t count) {
  cordma::Endpoint& to = l.other->endpoint;
  constexpr std::span<const std::byte> no_header;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (l.what.check) fill(l.out(0).bytes(), l.other->handled);
    const std::uint64_t sent_at = ticks();
    cordma::message_send_operation call = to.am_send(the_handler, no_header, l.out(0));
    call.start();
    co_await l.other->arrived.wait();
    l.samples.record(ticks() - sent_at);
    l.progress.store(i, std::memory_order_relaxed);
    co_await call;
  }
}

cordma::task<void> call_back(lane& l, std::uint64_t count) {
  cordma::Endpoint& to = l.other->endpoint;
  constexpr std::span<const std::byte> no_header;
  for (std::uint64_t i = 0; i < count; ++i) {
    co_await l.other->arrived.wait();
    if (l.what.check) fill(l.out(0).bytes(), l.other->handled - 1);
    co_await to.am_send(the_handler, no_header, l.out(0));
  }
}

cordma::task<void> write_stream(lane& l, std::uint64_t count) {
  cordma::Stream& s = l.other->stream;
  // Where a write is done as soon as it is posted, nothing has to be copied first.
  const bool as_it_is = l.endpoint.transport() == cordma::transport::kind::shm;
  const std::size_t size = l.what.size;
  for (std::uint64_t i = 0; i < count; ++i) {
    const cordma::Slice& message = l.out(i % l.slots);
    if (l.what.check) fill(message.bytes(), i);
    std::size_t done = 0;
    while (done < size) {
      const cordma::Slice rest = message.part(done, size - done);
      cordma::stream_write_operation op =
          as_it_is ? s.write_some(rest) : s.write_some(rest.bytes());
      const std::size_t written = co_await op;
      done += written;
    }
    l.progress.store(i, std::memory_order_relaxed);
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
