// The first and last moments of a connection: messages sent the instant it is established, and two
// sides that close at once.
#include <doctest/doctest.h>
#include <support/stage.hpp>

using namespace cordma;
using namespace cordma::test;

namespace {

// The number of connections that are opened and closed in ten seconds.
std::uint64_t rounds(stage& on) {
  return rounds_under_test(on.over() == transport::kind::shm ? 4000 : 10'000, 200);
}

}  // namespace

TEST_CASE(
    "M6: the first message, sent the instant the client is connected, is never lost [10,000 "
    "connections; 4000 on shm, 200 on verbs]") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    std::uint64_t& said = out.as<std::uint64_t>()[0];
    const std::uint64_t& heard = in.as<std::uint64_t>()[0];
    const std::uint64_t connections = rounds(on);
    for (std::uint64_t i = 0; i < connections; ++i) {
      CAPTURE(i);
      // The message waits for the connection inside the Endpoint and is sent with it: before the
      // server's side has received the established event, and before it has posted a receive.
      Endpoint client = on.client().endpoint(on.reach(listener)).value();
      said = i + 1;
      send_operation sending = client.send(out).start();
      ConnectionRequest request = co_await listener.next();
      Endpoint server = co_await request.accept();
      const Received got = co_await server.recv(in);
      CHECK(got.bytes == sizeof said);
      CHECK(heard == said);
      co_await sending;
      state_operation here = client.close().start();
      co_await server.close();
      co_await here;
    }
    CHECK(on.client().counters().inflight == 0);
    CHECK(on.server().counters().inflight == 0);
  });
}

TEST_CASE(
    "M6: both sides close at once: each is closed, and everything outstanding is flushed once") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (int i = 0; i < 20; ++i) {
      CAPTURE(i);
      wire w = co_await connect(on);
      MemoryRegion memory = client_memory(on, 64);
      MemoryRegion theirs = server_memory(on, 64);
      std::vector<recv_operation> waiting;
      for (std::size_t k = 0; k < 8; ++k) {
        waiting.push_back(w.client.recv(memory.all().part(8 * k, 8)).start());
        waiting.push_back(w.server.recv(theirs.all().part(8 * k, 8)).start());
      }
      state_operation here = w.client.close().start();
      state_operation there = w.server.close().start();
      co_await here;
      co_await there;
      for (recv_operation& op : waiting) {
        const result<Received> r = co_await op.result();
        CHECK(r.code() == errc::flushed);
      }
      CHECK(w.client.first_cause()->code() == errc::not_connected);
      CHECK(w.server.first_cause()->code() == errc::not_connected);
      CHECK(w.client.inflight() + w.server.inflight() == 0);
    }
  });
}
