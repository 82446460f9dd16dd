// A shared receive queue in a Context of several transports.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <optional>

using namespace cordma;
using namespace cordma::test;

namespace {

task<> receive_over(Worker* worker, Context* context, std::optional<transport::kind> asked) {
  BufferPool pool(*context, 64, 8);
  shared_receive_options o;
  o.depth = 4;
  o.transport = asked;
  SharedReceive arrivals = SharedReceive::on_device(*worker, pool, o).value();
  Listener listener = worker->listen("127.0.0.1:0").value();
  connect_options to;
  to.endpoint.shared = arrivals.queue();
  wire w = co_await connect(*worker, listener, listener.bound().text(), to);
  CHECK(w.client.transport() == asked.value_or(transport::kind::shm));
  CHECK(arrivals.attach(w.client).ok());
  MemoryRegion out = context->allocate(64, access::local_read).value();
  send_operation sending = w.server.send(out).start();
  const Arrival a = co_await arrivals.next();
  CHECK(a.from() == &w.client);
  co_await sending;
  Endpoint prepared = worker->prepare(to.endpoint).value();
  CHECK(prepared.transport() == w.client.transport());
}

}  // namespace

TEST_CASE("Q3: of several transports an endpoint goes over that of its queue [any, shm, tcp]") {
  using transport::kind;
  for (const std::optional<kind> asked :
       {std::optional<kind>(), std::optional(kind::shm), std::optional(kind::tcp)}) {
    reactor loop({.mode = wait_mode::polling});
    context_options o;
    o.transports = {kind::shm, kind::tcp};
    Context context(o);
    Worker worker(context, loop);
    run(loop, receive_over(&worker, &context, asked));
    BufferPool pool(context, 64, 8);
    shared_receive_options none;
    none.transport = kind::verbs;
    CHECK(SharedReceive::on_device(worker, pool, none).code() == errc::not_supported);
  }
}
