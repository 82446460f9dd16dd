// Deadlines of messages and streams: an operation that waits for the peer ends in time, and no
// message is lost by it.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/runtime/timeout.hpp>

#include <array>
#include <chrono>
#include <utility>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

constexpr duration soon = 20ms;

template <class Awaitable>
task<errc> end_in_time(Awaitable what) {
  errc code = errc::ok;
  try {
    co_await with_timeout(soon, std::move(what));
  } catch (const error& e) {
    code = e.why().code();
  }
  co_return code;
}

template <class Awaitable>
task<> times_out(Awaitable what) {
  const errc end = co_await end_in_time(std::move(what));
  CHECK(end == errc::timed_out);
}

task<> receives(Endpoint& at, const MemoryRegion& into, std::uint64_t seed) {
  const TagReceived got = co_await at.tag_recv(1, into);
  CHECK(got.bytes == into.size());
  CHECK(filled(into.bytes(), seed));
}

struct post_office : two_messages {
  explicit post_office(stage& s) : two_messages(s, {.credits = 1}) {}
};

}  // namespace

TEST_CASE(
    "K10: a deadline ends tagged and active messages that wait; what was sent comes, in order") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* at) -> task<> {
        wire w = co_await connect_messages(s, at->client, at->server);
        MemoryRegion out = client_memory(s, 32);
        MemoryRegion in = server_memory(s, 16);
        fill(out.bytes().first(16), 1);
        fill(out.bytes().subspan(16), 2);
        co_await times_out(w.server.tag_recv(1, in));
        co_await times_out(at->server.tag_recv(1, in));
        const Slice first = out.all().first(16);
        const Slice second = out.all().part(16, 16);
        co_await w.client.tag_send(1, first);  // it uses the only credit
        co_await times_out(w.client.tag_send(1, second));
        co_await times_out(w.client.am_send(1, second.bytes(), second));
        co_await receives(w.server, in, 1);
        // the message that timed out does not arrive late
        co_await times_out(w.server.tag_recv(1, in));
        co_await w.client.tag_send(1, second);
        co_await receives(w.server, in, 2);
      },
      &p);
}

TEST_CASE("K10: a message that is announced ends with the peer's answer, however late") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* at) -> task<> {
        constexpr std::size_t bytes = 2 << 20;
        wire w = co_await connect_messages(s, at->client, at->server);
        MemoryRegion out = client_memory(s, bytes);
        MemoryRegion in = server_memory(s, bytes);
        fill(out.bytes(), 3);
        task_context& me = co_await this_task();
        scope both(me);
        errc end = errc::again;
        both.spawn([](Endpoint* e, Slice what, errc* to) -> task<> {
          *to = co_await end_in_time(e->tag_send(1, what));
        }(&w.client, out.all(), &end));
        co_await sleep_for(3 * soon);
        CHECK(end == errc::again);
        co_await receives(w.server, in, 3);
        co_await both.join();
        CHECK(end == errc::ok);
      },
      &p);
}

TEST_CASE("K10: closing behind a message that nobody takes ends in time; abort() ends it all") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* at) -> task<> {
        wire w = co_await connect_messages(s, at->client, at->server);
        MemoryRegion out = client_memory(s, 2 << 20);
        message_send_operation announced = w.client.tag_send(1, out).start();
        co_await times_out(w.client.close());
        CHECK(w.client.state() == endpoint_state::closing);
        CHECK_FALSE(announced.done());
        w.client.abort();
        const result<void> end = co_await announced.result();
        CHECK(end.code() == errc::flushed);
        CHECK(w.client.state() == endpoint_state::closed);
      },
      &p);
}

TEST_CASE("N2: a deadline ends a read from who writes nothing, and a write to who reads nothing") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_options narrow;
    narrow.window_bytes = 4096;
    stream_pair p = co_await open_streams(s, narrow, narrow);
    std::array<std::byte, 1024> bytes{};
    co_await times_out(p.server.read_some(bytes));
    co_await times_out(p.server.read(bytes));
    std::size_t written = 0;
    while (written < 1 << 20) {
      fill(bytes, written);
      stream_write_operation op = p.client.write_some(bytes);
      try {
        const std::size_t some = co_await with_timeout(soon, std::move(op));
        written += some;
      } catch (const error& e) {
        CHECK(e.why().code() == errc::timed_out);
        break;
      }
    }
    CHECK(written < 1 << 20);
    CHECK(written >= 4096);
    co_await times_out(p.client.write(bytes));
    std::size_t read = 0;
    p.client.shutdown_send().value();
    for (;;) {
      const std::size_t some = co_await p.server.read_some(bytes);
      if (some == 0) break;
      read += some;
    }
    CHECK(read == written);
  });
}
