// Messages on endpoints that exist before their connection, or with descriptors carried by the
// program.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>

#include <cordma/net/requests.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr cordma::access everything =
    cordma::access::local_write | cordma::access::remote_read | cordma::access::remote_write;

struct both : two_messages {
  explicit both(stage& on) : two_messages(on, at_once) {}
  // The same limit on every transport: longer messages use rendezvous.
  static constexpr message_options at_once{.eager_bytes = 8192};
};

task<Endpoint> accepted(Listener& listener, Messages& messages) {
  ConnectionRequest request = co_await listener.next();
  co_return co_await request.accept(with(messages));
}

}  // namespace

TEST_CASE(
    "K4: 1000 tagged messages, short and long, wait for their connection and keep their order") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t count = 1000;
    constexpr std::size_t long_bytes = 20'000;
    both m(on);
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.client().endpoint(on.reach(listener), with(m.client)).value();
    MemoryRegion out = on.client_context().allocate(long_bytes, everything).value();
    MemoryRegion in = on.server_context().allocate(long_bytes, everything).value();
    MemoryRegion reply = client_memory(on, 8);
    std::vector<message_send_operation> sends;
    // A receive from this endpoint only, posted before a receive from any: it is the first to
    // match.
    tag_recv_operation mine = e.tag_recv(1, reply).start();
    tag_recv_operation anybodys = m.client.tag_recv(1, reply).start();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = i % 100 == 7 ? long_bytes : i % 9;
      sends.push_back(e.tag_send(i, out.all().first(bytes)).start());
    }
    for (const message_send_operation& op : sends) CHECK_FALSE(op.done());
    Endpoint peer = co_await accepted(listener, m.server);
    for (std::size_t i = 0; i < count; ++i) {
      const TagReceived got = co_await m.server.tag_recv(0, in, 0);
      CHECK(got.tag == i);
      CHECK(got.bytes == (i % 100 == 7 ? long_bytes : i % 9));
      CHECK(got.from == &peer);
    }
    for (message_send_operation& op : sends) co_await op;
    co_await peer.tag_send(1, in.all().first(3));
    const TagReceived got = co_await mine;
    CHECK(got.bytes == 3);
    CHECK(got.from == &e);
    CHECK_FALSE(anybodys.done());
    co_await peer.tag_send(1, in.all().first(2));
    const TagReceived second = co_await anybodys;
    CHECK(second.bytes == 2);
    CHECK(second.from == &e);
  });
}

TEST_CASE("K4: messages to the own Worker come to the Messages that sent them, short and long") {
  stage s;
  s.play([](stage& on) -> task<> {
    Messages own(on.server(), both::at_once);
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.server().endpoint(on.reach(listener), with(own)).value();
    MemoryRegion out = on.server_context().allocate(20'000, everything).value();
    MemoryRegion in = on.server_context().allocate(20'000, everything).value();
    message_send_operation early = e.tag_send(1, out.all().first(8)).start();
    Endpoint self = co_await accepted(listener, own);
    const TagReceived first = co_await own.tag_recv(1, in);
    CHECK(first.from == &self);
    co_await early;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{20'000}}) {
      for (Endpoint* const from : {&e, &self}) {
        CAPTURE(bytes);
        fill(out.bytes(), bytes);
        message_send_operation there = from->tag_send(2, out.all().first(bytes)).start();
        const TagReceived got = co_await own.tag_recv(2, in);
        CHECK(got.bytes == bytes);
        CHECK(got.from == (from == &e ? &self : &e));
        CHECK(filled(in.bytes().first(bytes), bytes));
        co_await there;
      }
    }
  });
}

TEST_CASE("K4: calls wait for the connection, and may be withdrawn or late meanwhile") {
  stage s;
  s.play([](stage& on) -> task<> {
    both m(on);
    Requests asking(m.client);
    Requests serving(m.server);
    serving.serve(3, [](Request r) -> task<void> {
      if (r.wants_response()) co_await r.respond();
    });
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.client().endpoint(on.reach(listener), with(m.client)).value();
    MemoryRegion words = client_memory(on, 8);
    call_operation first = asking.call(e, 3, words).start();
    call_operation late = asking.call(e, 3, words, {}, {.timeout = std::chrono::nanoseconds(1)});
    notify_operation told = asking.notify_acked(e, 3, words).start();
    call_operation unwanted = asking.call(e, 3, words).start();
    const result<Response> missed = co_await late.result();
    CHECK(missed.code() == errc::timed_out);
    unwanted.cancel();
    CHECK(unwanted.take_result().code() == errc::canceled);
    const result<Response> now = co_await asking.try_call(e, 3, words).result();
    CHECK(now.code() == errc::again);
    CHECK_FALSE(first.done());
    Endpoint peer = co_await accepted(listener, m.server);
    co_await first;
    co_await told;
  });
}

TEST_CASE("K4: what waits on an endpoint that is never connected ends with the cause") {
  stage s;
  s.play([](stage& on) -> task<> {
    both m(on);
    Requests asking(m.client);
    std::string nobody;
    {
      Listener gone = on.server().listen(on.server_address()).value();
      nobody = on.reach(gone);
    }
    Endpoint e = on.client().endpoint(nobody, with(m.client)).value();
    MemoryRegion memory = client_memory(on, 8);
    message_send_operation sending = e.tag_send(1, memory).start();
    message_send_operation speaking = e.am_send(1, {}, memory).start();
    tag_recv_operation receiving = e.tag_recv(1, memory).start();
    call_operation asked = asking.call(e, 1, memory).start();
    const result<void> sent = co_await sending.result();
    REQUIRE(sent.code() == errc::flushed);
    CHECK(sent.why().first_cause().code() == errc::unreachable);
    const result<void> spoken = co_await speaking.result();
    CHECK(spoken.code() == errc::flushed);
    const result<TagReceived> received = co_await receiving.result();
    REQUIRE(received.code() == errc::flushed);
    CHECK(received.why().first_cause().code() == errc::unreachable);
    const result<Response> answered = co_await asked.result();
    CHECK(answered.code() == errc::flushed);
    const result<void> late = co_await e.tag_send(1, memory).result();
    CHECK(late.code() == errc::flushed);
    const result<TagReceived> late_receive = co_await e.tag_recv(1, memory).result();
    CHECK(late_receive.code() == errc::flushed);
  });
}

TEST_CASE(
    "K4: messages on an unconnected endpoint outlive its end, its Messages', and its Requests'") {
  enum class way : std::uint8_t { aborted, destroyed, messages_gone, requests_gone, canceled };
  for (const way w :
       {way::aborted, way::destroyed, way::messages_gone, way::requests_gone, way::canceled}) {
    for (std::size_t turns = 0; turns < 20; ++turns) {
      CAPTURE(static_cast<int>(w));
      CAPTURE(turns);
      stage s;
      auto messages = std::make_unique<Messages>(s.client());
      auto asking = std::make_unique<Requests>(*messages);
      Listener listener = s.server().listen(s.server_address()).value();
      next_operation coming = listener.next().start();
      MemoryRegion memory = client_memory(s, 8);
      auto e = std::make_unique<Endpoint>(
          s.client().endpoint(s.reach(listener), with(*messages)).value());
      message_send_operation sending = e->tag_send(1, memory).start();
      tag_recv_operation receiving = e->tag_recv(1, memory).start();
      call_operation asked = asking->call(*e, 1, memory).start();
      for (std::size_t i = 0; i < turns; ++i) s.loop().turn();
      if (w == way::aborted) e->abort();
      if (w == way::destroyed) e.reset();
      if (w == way::messages_gone) {
        asking.reset();
        messages.reset();
      }
      if (w == way::requests_gone) asking.reset();
      if (w == way::canceled) {
        sending.cancel();
        receiving.cancel();
        asked.cancel();
      }
      for (int i = 0; i < 10; ++i) s.loop().turn();
      CHECK(asked.done());
      if (w == way::requests_gone) continue;
      CHECK(sending.done());
      CHECK(receiving.done());
      const errc code = receiving.take_result().code();
      CHECK(code == (w == way::canceled        ? errc::canceled
                     : w == way::messages_gone ? errc::shutdown
                                               : errc::flushed));
    }
  }
}

TEST_CASE("I3: endpoints for messages are connected by descriptors") {
  stage s;
  s.play([](stage& on) -> task<> {
    both m(on);
    Endpoint a = on.client().prepare({}, on.over(), &m.client).value();
    Endpoint b = on.server().prepare({}, on.over(), &m.server).value();
    MemoryRegion out = on.client_context().allocate(50'000, everything).value();
    MemoryRegion in = on.server_context().allocate(50'000, everything).value();
    fill(out.bytes(), 5);
    // They wait, as on any endpoint that is not connected yet.
    message_send_operation short_one = a.tag_send(1, out.all().first(9)).start();
    message_send_operation long_one = a.tag_send(2, out).start();
    const std::vector<std::byte> of_a = a.descriptor().value();
    const std::vector<std::byte> of_b = b.descriptor().value();
    b.connect(of_a).value();
    a.connect(of_b).value();
    const TagReceived first = co_await m.server.tag_recv(1, in);
    CHECK(first.bytes == 9);
    const TagReceived second = co_await b.tag_recv(2, in);
    CHECK(second.bytes == 50'000);
    CHECK(filled(in.bytes(), 5));
    co_await short_one;
    co_await long_one;
    const result<Endpoint> foreign = on.client().prepare({}, on.over(), &m.server);
    CHECK(foreign.code() == errc::invalid_value);
  });
}
