// The RDMA device is taken away under everything. Leaves its machine without one, and so has it alone.
#include "event_counts.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cstdlib>

using namespace cordma;
using namespace cordma::test;

namespace {

task<> lose_the_device(Worker* worker, Context* context) {
  Listener listener = worker->listen(own_host() + ":0").value();
  const std::string where = own_host() + ":" + std::to_string(listener.bound().port);
  wire w = co_await connect(*worker, listener, where);
  MemoryRegion memory = context->allocate(64).value();
  recv_operation waiting = w.server.recv(memory).start();
  next_operation asked = listener.next().start();
  REQUIRE(std::system("rdma link del rxe0 &") == 0);
  const result<Received> flushed = co_await waiting.result();
  CHECK(flushed.code() == errc::flushed);
  while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
  CHECK(w.client.first_cause()->code() == errc::connection_reset);
  CHECK(w.server.first_cause()->code() == errc::connection_reset);
  CHECK(cm_events(RDMA_CM_EVENT_DEVICE_REMOVAL) > 0);
  const result<Endpoint> again = co_await worker->connect(where).result();
  CHECK(again.code() == errc::unreachable);
  asked.cancel();
  const result<ConnectionRequest> nobody = co_await asked.result();
  CHECK_FALSE(nobody.ok());
  const std::uint64_t before = worker->loop().counters().turns;
  co_await sleep_for(std::chrono::milliseconds(300));
  CHECK(worker->loop().counters().turns - before < 30);  // it sleeps
}

}  // namespace

TEST_CASE("M4: the device is removed: every connection ends, the Worker sleeps, the program ends") {
  host h(wait_mode::event);
  h.worker.run(lose_the_device(&h.worker, &h.context));
}
