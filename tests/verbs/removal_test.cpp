// The RDMA device is removed during use. The test leaves its machine without one, so it runs on a
// separate machine.
#include "event_counts.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cstdlib>

using namespace cordma;
using namespace cordma::test;

namespace {

// All objects that a Worker can have on a device, with a waiting coroutine at each.
task<> lose_the_device(Worker* worker, Context* context) {
  Listener listener = worker->listen(own_host() + ":0").value();
  Listener everywhere = worker->listen(":0").value();
  const std::string where = own_host() + ":" + std::to_string(listener.bound().port);
  wire by_address = co_await connect(*worker, listener, where);
  wire by_descriptors = co_await connect_by_descriptors(*worker, *worker);
  Endpoint prepared = worker->prepare().value();
  DatagramEndpoint port = worker->datagram().value();
  MemoryRegion memory = context->allocate(64).value();
  recv_operation waiting = by_address.server.recv(memory).start();
  recv_operation as_well = by_descriptors.server.recv(memory).start();
  datagram_recv_operation datagram = port.recv_from(memory).start();
  next_operation asked = listener.next().start();
  next_operation anybody = everywhere.next().start();
  device_event_operation told = worker->next_device_event().start();
  REQUIRE(std::system("rdma link del rxe0 &") == 0);

  const device_event event = co_await told;
  CHECK(event.what == device_event::type::device_failed);
  for (recv_operation* r : {&waiting, &as_well}) {
    const result<Received> flushed = co_await r->result();
    CHECK(flushed.code() == errc::flushed);
  }
  const result<Datagram> no_datagram = co_await datagram.result();
  CHECK(no_datagram.code() == errc::flushed);
  for (next_operation* n : {&asked, &anybody}) {
    const result<ConnectionRequest> nobody = co_await n->result();
    CHECK(nobody.code() == errc::unreachable);
  }
  for (const wire* w : {&by_address, &by_descriptors}) {
    for (const Endpoint* e : {&w->client, &w->server}) {
      CHECK(e->state() == endpoint_state::closed);
      CHECK(e->first_cause()->code() == errc::connection_reset);
    }
  }
  CHECK(port.state() == endpoint_state::closed);
  CHECK(prepared.first_cause()->code() == errc::unreachable);
  CHECK(cm_events(RDMA_CM_EVENT_DEVICE_REMOVAL) > 0);

  // Nothing new can be started there, and each attempt fails at once.
  const result<ConnectionRequest> still_nobody = co_await listener.next().result();
  CHECK(still_nobody.code() == errc::unreachable);
  const result<Endpoint> again = co_await worker->connect(where).result();
  CHECK(again.code() == errc::unreachable);
  CHECK(worker->listen(own_host() + ":0").code() == errc::unreachable);
  CHECK(worker->prepare().code() == errc::unreachable);
  CHECK(worker->datagram().code() == errc::unreachable);
  const std::uint64_t before = worker->loop().counters().turns;
  co_await sleep_for(std::chrono::milliseconds(300));
  CHECK(worker->loop().counters().turns - before < 30);  // it sleeps
}

// Nothing here was connected by rdma_cm, which reports the removal only to its own users of the
// device.
task<> lose_a_device_that_nobody_connected_by(Worker* worker, Context* context) {
  wire w = co_await connect_by_descriptors(*worker, *worker);
  DatagramEndpoint port = worker->datagram().value();
  MemoryRegion memory = context->allocate(64).value();
  recv_operation waiting = w.server.recv(memory).start();
  datagram_recv_operation datagram = port.recv_from(memory).start();
  REQUIRE(std::system("rdma link del rxe1 &") == 0);
  const result<Received> flushed = co_await waiting.result();
  CHECK(flushed.code() == errc::flushed);
  const result<Datagram> no_datagram = co_await datagram.result();
  CHECK(no_datagram.code() == errc::flushed);
  CHECK(w.client.first_cause()->code() == errc::connection_reset);
}

void run_or_fail(const char* command) {
  CAPTURE(command);
  REQUIRE(std::system(command) == 0);
}

}  // namespace

TEST_CASE("M4: the device is removed from under descriptors and datagrams alone") {
  run_or_fail("ip link add wire2 type veth peer name wire3 && ip addr add 10.78.0.1/24 dev wire2");
  run_or_fail(
      "ip link set wire3 up && ip link set wire2 up && rdma link add rxe1 type rxe netdev wire2");
  context_options o = host::only();
  o.verbs.device = "rxe1";
  Context context(o);
  Worker worker(context, reactor_options{.mode = wait_mode::event});
  worker.run(lose_a_device_that_nobody_connected_by(&worker, &context));
}

TEST_CASE(
    "M4: the device is removed: every connection, port and listener ends, the Worker sleeps, the "
    "program ends") {
  host h(wait_mode::event);
  h.worker.run(lose_the_device(&h.worker, &h.context));
}
