// Two hosts, and the wire between them goes: who waits learns it, idle or busy. Needs two machines.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cstdlib>
#include <string_view>

using namespace cordma;
using namespace cordma::test;

namespace {

std::string named(const char* variable) {
  const char* const value = std::getenv(variable);
  REQUIRE_MESSAGE(value != nullptr, variable, " is not set: run it by tests/soft-roce/run.sh");
  return value;
}

context_options only_verbs() {
  context_options o;
  o.transports = {transport::kind::verbs};
  return o;
}

constexpr const char* port = ":18715";

endpoint_options impatient() {
  endpoint_options o;
  o.peer_timeout = std::chrono::seconds(2);
  return o;
}

// Connected, a message each way, and then neither says a word.
task<> fall_silent(Worker* worker, Context* context, Endpoint e, bool cuts) {
  MemoryRegion memory = context->allocate(64).value();
  recv_operation receiving = e.recv(memory.all().first(8)).start();
  co_await e.send(memory.all().part(8, 8));
  co_await receiving;
  recv_operation waiting = e.recv(memory.all().first(8)).start();
  if (cuts) {
    const std::string cut =
        "tc qdisc replace dev " + named("CORDMA_NETDEV") + " root netem loss 100%";
    REQUIRE(std::system(cut.c_str()) == 0);
  }
  const time_point cut_at = worker->loop().now();
  const result<Received> r = co_await waiting.result();
  CHECK(r.code() == errc::flushed);
  REQUIRE(e.first_cause() != nullptr);
  CHECK(e.first_cause()->code() == errc::connection_reset);
  const auto waited = worker->loop().now() - cut_at;
  MESSAGE("learnt it after ", std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(),
          " ms");
}

task<> serve(Worker* worker, Context* context, Listener* listener) {
  ConnectionRequest request = co_await listener->next();
  connect_options o;
  o.endpoint = impatient();
  Endpoint e = co_await request.accept(o);
  co_await fall_silent(worker, context, std::move(e), false);
}

task<> ask(Worker* worker, Context* context) {
  connect_options o;
  o.endpoint = impatient();
  const std::string server = named("CORDMA_HOST_PEER") + port;
  for (;;) {  // the other machine may still be starting
    const result<Endpoint> r = co_await worker->connect(server, o).result();
    if (!r.ok()) {
      REQUIRE(r.code() == errc::unreachable);
      continue;
    }
    Endpoint e = std::move(const_cast<Endpoint&>(*r));
    co_await fall_silent(worker, context, std::move(e), true);
    co_return;
  }
}

}  // namespace

TEST_CASE(
    "K10: an idle connection notices that the wire is cut, on both sides, without a request") {
  Context context(only_verbs());
  Worker worker(context, reactor_options{.mode = wait_mode::event});
  if (named("CORDMA_HOST_NAME") == "b") {
    Listener listener = worker.listen(named("CORDMA_HOST_SELF") + port).value();
    worker.run(serve(&worker, &context, &listener));
  } else {
    worker.run(ask(&worker, &context));
  }
}
