// Limits of rendezvous messages: how many at a time, how many of them from requests, and the bytes
// in flight of a message that is sent in parts.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/request_service.hpp>
#include <support/stage.hpp>

#include <algorithm>
#include <deque>
#include <memory>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t long_bytes = 20'000;
constexpr std::size_t most_offers = 64;  // offers that a side allows its peer
constexpr message_options generous{.eager_bytes = 8192, .credits = 300};

std::size_t announced(Messages& to, std::size_t tags) {
  std::size_t here = 0;
  for (std::uint64_t tag = 0; tag < tags; ++tag) here += to.tag_probe(tag) ? 1U : 0U;
  return here;
}

}  // namespace

TEST_CASE(
    "more long messages than the peer lets be announced wait at their sender, and lose nothing") {
  stage on;
  on.play([](stage& s) -> task<> {
    constexpr std::size_t count = 2 * most_offers + 10;
    Messages client(s.client(), generous);
    Messages server(s.server(), generous);
    wire w = co_await connect_messages(s, client, server);
    const MemoryRegion from = client_memory(s, long_bytes);
    const MemoryRegion into = server_memory(s, long_bytes);
    fill(from.bytes(), 3);
    std::deque<message_send_operation> sends;
    for (std::uint64_t tag = 0; tag < count; ++tag) {
      sends.push_back(w.client.tag_send(tag, from).start());
    }
    while (announced(server, count) < most_offers) co_await moment(s);
    co_await for_a_while(s);
    CHECK(announced(server, count) == most_offers);
    for (std::uint64_t tag = 0; tag < count; ++tag) {
      const TagReceived got = co_await w.server.tag_recv(tag, into);
      CHECK(got.bytes == long_bytes);
      CHECK(filled(into.bytes(), 3));
      // The next one takes its slot.
      const std::size_t left = count - tag - 1;
      while (announced(server, count) < std::min(left, most_offers)) co_await moment(s);
    }
    for (message_send_operation& one : sends) co_await one;
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("long requests that nobody reads leave half of what may be announced to messages") {
  stage on;
  service p(on, generous, {.window = 200}, {.window = 200});
  serve(p, long_bytes);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, long_bytes);
        std::deque<call_operation> calls;
        for (std::size_t i = 0; i < most_offers; ++i) {
          calls.push_back(at->asks.call(w->client, keep_method, from).start());
        }
        co_await until_kept(*at, most_offers / 2);
        co_await for_a_while(s);
        CHECK(at->kept.size() == most_offers / 2);
        message_send_operation beside = w->client.tag_send(1, from).start();
        co_await w->server.tag_recv(1, at->room);
        co_await beside;
        for (std::size_t i = 0; i < most_offers; ++i) {
          co_await until_kept(*at, 1);
          const std::unique_ptr<Request> one = std::move(at->kept.back());
          at->kept.pop_back();
          co_await one->read(at->room.all());
          co_await one->respond();
        }
        for (call_operation& one : calls) co_await one;
      },
      &p);
}

TEST_CASE("a message that is sent by parts is asked for sixteen ahead, anew by the half") {
  stage on;
  on.play([](stage& s) -> task<> {
    constexpr std::size_t part = 8192 - 16;
    constexpr std::size_t parts = 100;
    constexpr std::size_t wants = 1 + (parts - 16 + 7) / 8;
    Messages client(s.client(), generous);
    Messages server(s.server(), generous);
    wire w = co_await connect_messages(s, client, server);
    const MemoryRegion from = client_memory(s, parts * part, access::local_write);
    const MemoryRegion into = server_memory(s, parts * part, access::local_write);
    fill(from.bytes(), 4);
    message_send_operation sent = w.client.tag_send(1, from).start();
    while (!server.tag_probe(1)) co_await moment(s);
    const std::uint64_t before = w.server.counters().sends;
    const TagReceived got = co_await w.server.tag_recv(1, into);
    CHECK(got.bytes == parts * part);
    CHECK(filled(into.bytes(), 4));
    co_await sent;
    // Each request for parts is a separate frame, and so is the end.
    const std::uint64_t said = w.server.counters().sends - before;
    CHECK(said >= wants + 1);
    CHECK(said <= wants + 3);
  });
}

TEST_CASE("C7: of an endpoint of one segment, short messages go out; others are refused") {
  stage s;
  Messages client(s.client(), {.eager_bytes = 4096});
  Messages server(s.server(), {.eager_bytes = 4096});
  s.play(
      [](stage& on, Messages* a, Messages* b) -> task<> {
        connect_options to;
        to.endpoint.max_segments = 1;
        wire w = co_await connect_messages(on, *a, *b, to);
        const bool of_one = w.client.actual().max_segments == 1;
        const MemoryRegion out = client_memory(on, 20'000);
        const MemoryRegion in = server_memory(on, 20'000);
        for (const std::size_t size : {std::size_t{8}, std::size_t{300}}) {
          CAPTURE(size);
          fill(out.bytes().first(size), size);
          message_send_operation sending = w.client.tag_send(1, out.all().first(size)).start();
          const result<TagReceived> got = co_await b->tag_recv(1, in).result();
          REQUIRE(got.ok());
          CHECK(got->bytes == size);
          CHECK(filled(in.bytes().first(size), size));
          co_await sending;
        }
        // These do not fit into one segment: a head, and the bytes from the program's buffer.
        for (const std::size_t size : {std::size_t{2000}, std::size_t{20'000}}) {
          CAPTURE(size);
          message_send_operation sending = w.client.tag_send(2, out.all().first(size)).start();
          CHECK((!of_one || sending.done()));
          if (!of_one) co_await b->tag_recv(2, in);
          const result<void> sent = co_await sending.result();
          CHECK(sent.code() == (of_one ? errc::invalid_value : errc::ok));
        }
      },
      &client, &server);
}

TEST_CASE("a message longer than the transport's longest is read, or written, in pieces" *
          not_on({transport::kind::shm, transport::kind::tcp}, "where that is 1 GiB")) {
  stage s;
  Messages client(s.client());
  Messages server(s.server());
  s.play(
      [](stage& on, Messages* a, Messages* b) -> task<> {
        const std::size_t bytes = on.caps().max_message + (1 << 20) + 1;
        wire w = co_await connect_messages(on, *a, *b);
        const MemoryRegion in = server_memory(on, bytes);
        for (const cordma::access rights : {every_right, cordma::access::local_write}) {
          CAPTURE(rights == cordma::access::local_write);
          const MemoryRegion out = client_memory(on, bytes, rights);
          fill(out.bytes(), bytes);
          std::ranges::fill(in.bytes(), std::byte{0});
          message_send_operation sending = w.client.tag_send(1, out).start();
          const TagReceived got = co_await w.server.tag_recv(1, in);
          CHECK(got.bytes == bytes);
          CHECK(filled(in.bytes(), bytes));
          co_await sending;
        }
      },
      &client, &server);
}
