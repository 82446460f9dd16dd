// Endpoints that exist before their connection: started operations wait, and are posted in order.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

TEST_CASE(
    "K4: 1000 sends issued before the connection is there arrive in order, and so do replies") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t count = 1000;
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.client().endpoint(on.reach(listener)).value();
    CHECK(e.state() == endpoint_state::connecting);
    MemoryRegion out = client_memory(on, count * 8);
    MemoryRegion in = server_memory(on, count * 8);
    MemoryRegion reply = client_memory(on, 8);
    std::vector<send_operation> sends;
    std::vector<recv_operation> recvs;
    recv_operation replied = e.recv(reply).start();
    for (std::size_t i = 0; i < count; ++i) {
      out.as<std::uint64_t>()[i] = i + 1;
      const Slice word = out.all().part(i * 8, 8);
      sends.push_back(i % 2 == 0 ? e.send(word).start() : e.send_imm(word, 7).start());
    }
    send_operation flushed = e.flush().start();
    send_operation idle = e.send(out.all().part(16, 8));
    for (const send_operation& op : sends) CHECK_FALSE(op.done());
    CHECK(e.state() == endpoint_state::connecting);
    ConnectionRequest request = co_await listener.next();
    for (const send_operation& op : sends) CHECK_FALSE(op.done());
    Endpoint peer = co_await request.accept();
    for (std::size_t i = 0; i < count; ++i) {
      recvs.push_back(peer.recv(in.all().part(i * 8, 8)).start());
    }
    for (recv_operation& op : recvs) {
      const Received got = co_await op;
      CHECK(got.bytes == 8);
    }
    for (send_operation& op : sends) co_await op;
    co_await flushed;
    for (std::size_t i = 0; i < count; ++i) CHECK(in.as<std::uint64_t>()[i] == i + 1);
    co_await peer.send(in.all().part(8, 8));
    co_await replied;
    CHECK(reply.as<std::uint64_t>()[0] == 2);
    // Created before the endpoint had a transport, started afterwards.
    recv_operation last = peer.recv(in.all().first(8)).start();
    co_await idle;
    co_await last;
    CHECK(in.as<std::uint64_t>()[0] == 3);
    CHECK(e.state() == endpoint_state::connected);
    CHECK(e.transport() == on.over());
    CHECK(e.inflight() == 0);
    CHECK(on.client().counters().endpoints == 1);
  });
}

TEST_CASE("K4: an endpoint to the own Worker takes messages before it is connected to itself") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.server().endpoint(on.reach(listener)).value();
    MemoryRegion memory = server_memory(on, 128);
    fill(memory.bytes().first(64), 9);
    send_operation sending = e.send(memory.all().first(64)).start();
    ConnectionRequest request = co_await listener.next();
    Endpoint self = co_await request.accept();
    co_await self.recv(memory.all().part(64, 64));
    co_await sending;
    CHECK(filled(memory.bytes().subspan(64), 9));
  });
}

TEST_CASE(
    "K4: where nobody listens, or the address is none, what was started ends with that cause") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::string nobody;
    {
      Listener gone = on.server().listen(on.server_address()).value();
      nobody = on.reach(gone);
    }
    for (const bool parses : {true, false}) {
      CAPTURE(parses);
      Endpoint e = on.client().endpoint(parses ? nobody : "no port").value();
      MemoryRegion memory = client_memory(on, 8);
      send_operation sending = e.send(memory).start();
      recv_operation receiving = e.recv(memory).start();
      send_operation flushing = e.flush().start();
      const errc cause = parses ? errc::unreachable : errc::invalid_value;
      const result<void> sent = co_await sending.result();
      const result<Received> received = co_await receiving.result();
      const result<void> flushed = co_await flushing.result();
      REQUIRE(sent.code() == errc::flushed);
      CHECK(sent.why().first_cause().code() == cause);
      CHECK(received.code() == errc::flushed);
      CHECK(flushed.code() == errc::flushed);
      CHECK(e.state() == endpoint_state::closed);
      REQUIRE(e.first_cause() != nullptr);
      CHECK(e.first_cause()->code() == cause);
      const result<void> late = co_await e.send(memory).result();
      CHECK(late.code() == errc::flushed);
    }
    CHECK(on.client().counters().endpoints == 0);
  });
}

TEST_CASE("K4: a rejected endpoint says so, and a full Worker makes none") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint refused = on.client().endpoint(on.reach(listener)).value();
    MemoryRegion memory = client_memory(on, 8);
    send_operation sending = refused.send(memory).start();
    ConnectionRequest request = co_await listener.next();
    CHECK(request.reject().ok());
    const result<void> sent = co_await sending.result();
    CHECK(sent.code() == errc::flushed);
    CHECK(refused.first_cause()->code() == errc::rejected);
    on.client().limit_endpoints(1);
    Endpoint first = on.client().endpoint(on.reach(listener)).value();
    ConnectionRequest coming = co_await listener.next();
    Endpoint peer = co_await coming.accept();
    while (first.state() == endpoint_state::connecting) co_await first.state_changed();
    CHECK(first.state() == endpoint_state::connected);
    Endpoint second = on.client().endpoint(on.reach(listener)).value();
    while (second.state() == endpoint_state::connecting) co_await second.state_changed();
    CHECK(second.first_cause()->code() == errc::full);
  });
}

TEST_CASE("K4: one-sided operations are refused until the transport is known") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.client().endpoint(on.reach(listener)).value();
    MemoryRegion mine = client_memory(on, 8);
    MemoryRegion theirs = server_memory(on, 8);
    const RemoteMemory remote = exported(theirs);
    const result<void> read = co_await e.read(remote, mine).result();
    const result<void> written = co_await e.write(remote, mine).result();
    const result<std::uint64_t> added = co_await e.fetch_add(remote, 1).result();
    CHECK(read.code() == errc::not_connected);
    CHECK(written.code() == errc::not_connected);
    CHECK(added.code() == errc::not_connected);
    ConnectionRequest request = co_await listener.next();
    Endpoint peer = co_await request.accept();
    while (e.state() == endpoint_state::connecting) co_await e.state_changed();
    fill(theirs.bytes(), 4);
    co_await e.read(remote, mine);
    CHECK(filled(mine.bytes(), 4));
  });
}

TEST_CASE("K4: closing what is not connected yet carries out first what was started") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    Endpoint e = on.client().endpoint(on.reach(listener)).value();
    MemoryRegion out = client_memory(on, 300'000);
    MemoryRegion in = server_memory(on, 300'000);
    fill(out.bytes(), 3);
    send_operation sending = e.send(out).start();
    state_operation closing = e.close().start();
    CHECK(e.state() == endpoint_state::closing);
    const result<void> late = co_await e.send(out).result();
    CHECK(late.code() == errc::not_connected);
    ConnectionRequest request = co_await listener.next();
    Endpoint peer = co_await request.accept();
    co_await peer.recv(in);
    CHECK(filled(in.bytes(), 3));
    co_await sending;
    co_await closing;
    while (peer.state() != endpoint_state::closed) co_await peer.state_changed();
    CHECK(peer.first_cause()->code() == errc::not_connected);
  });
}

TEST_CASE(
    "K4: an unconnected endpoint is aborted, destroyed or outlives its Worker, with work in it") {
  enum class way : std::uint8_t { aborted, destroyed, outlives };
  for (const way w : {way::aborted, way::destroyed, way::outlives}) {
    for (std::size_t turns = 0; turns < 20; ++turns) {
      CAPTURE(static_cast<int>(w));
      CAPTURE(turns);
      stage s;
      Listener listener = s.server().listen(s.server_address()).value();
      next_operation coming = listener.next().start();
      MemoryRegion memory = client_memory(s, 8);
      auto e = std::make_unique<Endpoint>(s.client().endpoint(s.reach(listener)).value());
      send_operation sending = e->send(memory).start();
      recv_operation receiving = e->recv(memory).start();
      for (std::size_t i = 0; i < turns; ++i) s.loop().turn();
      if (w == way::aborted) e->abort();
      if (w == way::destroyed) e.reset();
      if (w == way::outlives) s.drop_client();
      for (int i = 0; i < 10; ++i) s.loop().turn();
      CHECK(sending.done());
      CHECK(receiving.done());
      CHECK(receiving.take_result().code() == errc::flushed);
      e.reset();
    }
  }
}
