// With or_again(), an operation that would have to wait fails with `again` instead: messages,
// streams, requests. A failed attempt leaves nothing behind.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/request_service.hpp>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/messages.hpp>

#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t id = 5;

struct pair_of : two_messages {
  using two_messages::two_messages;
  std::deque<ActiveMessage> kept;
};

task<> keep(pair_of* p, ActiveMessage m) {
  p->kept.push_back(std::move(m));
  co_return;
}

message_send_operation send_tagged(Endpoint& to, const Slice& what) { return to.tag_send(1, what); }

message_send_operation send_active(Endpoint& to, const Slice& what) {
  return to.am_send(id, std::span<const std::byte>(), what);
}

// Sends until a send would have to wait, then retries until the peer returns no more credits.
// Returns the number of messages sent.
task<int> send_until_full(stage* s, Endpoint* to, Slice what,
                          message_send_operation (*send)(Endpoint&, const Slice&)) {
  int went = 0;
  for (int in_vain = 0; in_vain < 3;) {
    message_send_operation op = send(*to, what);
    const result<void> sent = co_await std::move(op).or_again().result();
    if (sent) {
      ++went;
      in_vain = 0;
      continue;
    }
    CHECK(sent.code() == errc::again);
    CHECK(std::string_view(sent.why().operation()).ends_with("_send"));
    ++in_vain;
    co_await for_a_while(*s);
  }
  co_return went;
}

}  // namespace

TEST_CASE("a message that its peer has no room for is not sent, where it may not wait") {
  stage on;
  pair_of p(on, {.eager_bytes = 1024, .credits = 8});
  p.server.on(id, [at = &p](ActiveMessage m) { return keep(at, std::move(m)); });
  on.play(
      [](stage& s, pair_of* both) -> task<> {
        wire w = co_await connect_messages(s, both->client, both->server);
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = server_memory(s, 8);
        Endpoint* const to = &w.client;
        const int tagged = co_await send_until_full(&s, to, from.all(), send_tagged);
        CHECK(tagged == 8);
        for (int i = 0; i < tagged; ++i) co_await both->server.tag_recv(1, into);
        const result<TagReceived> none =
            co_await both->server.tag_recv(1, into).or_again().result();
        CHECK(none.code() == errc::again);
        co_await for_a_while(s);
        const int active = co_await send_until_full(&s, to, from.all(), send_active);
        CHECK(active == 8);
        while (both->kept.size() < 8) co_await moment(s);
        both->kept.clear();
        // The failed attempt leaves nothing behind: this is the next message.
        co_await to->tag_send(2, from);
        while (!both->server.tag_probe(2)) co_await moment(s);
        const TagReceived here = co_await both->server.tag_recv(2, into).or_again();
        CHECK(here.bytes == 8);
        CHECK(both->kept.empty());
      },
      &p);
}

TEST_CASE("a stream without room, or without bytes, says so, where it may not wait") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options small{.window_bytes = 4096};
    stream_pair p = co_await open_streams(s, small, small);
    std::vector<std::byte> room(10'000);
    const result<std::size_t> nothing = co_await p.server.read_some(room).or_again().result();
    CHECK(nothing.code() == errc::again);
    std::size_t written = 0;
    for (int in_vain = 0; in_vain < 3;) {
      const std::span<const std::byte> bytes(room);
      const result<std::size_t> some =
          co_await p.client.write_some(bytes.first(1000)).or_again().result();
      if (some) {
        written += *some;
        continue;
      }
      CHECK(some.code() == errc::again);
      ++in_vain;
      co_await for_a_while(s);
    }
    CHECK(written == 4096);
    std::size_t read = 0;
    while (read < written) {
      const result<std::size_t> some = co_await p.server.read_some(room).or_again().result();
      if (some) read += *some;
      if (!some) co_await moment(s);
    }
    CHECK(read == written);
    co_await p.client.write(std::span(room).first(8));
    co_await p.server.read(std::span(room).first(8));
  });
}

TEST_CASE("a call that the bounds keep back is not made, where it may not wait") {
  stage on;
  service p(on, roomy, {.most_calls = 1});
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        call_operation first = at->asks.call(w->client, keep_method, from).start();
        co_await until_kept(*at, 1);
        const result<Response> second =
            co_await at->asks.call(w->client, keep_method, from).or_again().result();
        CHECK(second.code() == errc::again);
        co_await at->kept[0]->respond();
        co_await first;
        co_await for_a_while(s);
        CHECK(at->kept.size() == 1);
        call_operation third = at->asks.call(w->client, keep_method, from).or_again();
        third.start();
        co_await until_kept(*at, 2);
        co_await at->kept[1]->respond();
        co_await third;
        at->kept.clear();
      },
      &p);
}

TEST_CASE("a call that has no credit is not made, where it may not wait") {
  stage on;
  service p(on, {.eager_bytes = 16'384, .credits = 8}, {.window = 4}, {.window = 4});
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = server_memory(s, 8);
        co_await at->asks.call(w->client, echo_method, from, from);
        Endpoint* const to = &w->client;
        const int tagged = co_await send_until_full(&s, to, from.all(), send_tagged);
        const result<Response> none =
            co_await at->asks.try_call(w->client, keep_method, from).result();
        CHECK(none.code() == errc::again);
        for (int i = 0; i < tagged; ++i) co_await at->server.tag_recv(1, into);
        co_await for_a_while(s);
        CHECK(at->kept.empty());
        const result<Response> made =
            co_await at->asks.try_call(w->client, echo_method, from, from).result();
        CHECK(made.ok());
      },
      &p);
}
