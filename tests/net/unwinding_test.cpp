// G3: the n-th resource request to a device fails, for every n. Earlier resources are released, the
// first error is reported, and the next session succeeds.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

#include <stdexcept>

using namespace cordma;
using namespace cordma::test;

namespace {

// Connects, echoes, reads, writes, adds, and closes.
task<> session(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener)).start();
  next_operation coming = listener.next().start();
  while (!coming.done() && !connecting.done()) co_await moment(on);
  if (!coming.done()) {
    Endpoint client = co_await connecting;
    throw std::logic_error("connected without a request");
  }
  ConnectionRequest request = co_await coming;
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
  MemoryRegion out = client_memory(on, 20'000);
  MemoryRegion in = server_memory(on, 20'000);
  const RemoteMemory remote = exported(in);
  recv_operation receiving = server.recv(in).start();
  co_await client.send(out);
  co_await receiving;
  co_await client.write(remote, out);
  co_await client.read(remote, out);
  co_await client.fetch_add(remote.slice(0, 8).value(), 1);
  co_await client.flush();
  co_await client.close();
}

}  // namespace

TEST_CASE("G3: the n-th registration, listening, connecting or accepting fails, for every n") {
  for (const char* host : {"client", "server"}) {
    int failures = 0;
    for (std::uint32_t n = 1; n < 20; ++n) {
      CAPTURE(host);
      CAPTURE(n);
      stage s({}, transport::kind::sim);
      s.net().fail_allocation(host, n);
      errc code = errc::ok;
      try {
        s.play([](stage& on) -> task<> { co_await session(on); });
      } catch (const error& e) {
        code = e.why().first_cause().code();
      }
      const bool came = s.net().faults().failed_allocations != 0;
      CHECK((code != errc::ok) == came);
      // The other side of a connection that could not be accepted receives a rejection.
      if (came) CHECK((code == errc::no_memory || code == errc::rejected));
      if (came) ++failures;
      s.net().fail_allocation(host, 0);
      s.play([](stage& on) -> task<> { co_await session(on); });
      CHECK(s.client().counters().inflight == 0);
      CHECK(s.server().counters().inflight == 0);
    }
    CHECK(failures >= 2);
  }
}
