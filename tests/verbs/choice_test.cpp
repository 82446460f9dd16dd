// The choice between several transports, and the reported reason.
#include <doctest/doctest.h>
#include <support/stage.hpp>

using namespace cordma;
using namespace cordma::test;
using transport::kind;

namespace {

struct joined {
  Endpoint client;
  Endpoint server;
};

task<joined> join(Worker* worker, Listener* listener, std::string host) {
  const std::string to = host + ":" + std::to_string(listener->bound().port);
  connect_operation connecting = worker->connect(to).start();
  ConnectionRequest request = co_await listener->next();
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
  joined both;
  both.client = std::move(client);
  both.server = std::move(server);
  co_return both;
}

// Connects to this host by one of its addresses; returns the transport and the reason.
std::pair<kind, std::string> chosen(std::vector<kind> kinds, const std::string& host) {
  context_options o;
  o.transports = std::move(kinds);
  Context context(o);
  Worker worker(context);
  Listener listener = worker.listen(":0").value();
  const joined both = worker.run(join(&worker, &listener, host));
  CHECK(both.client.transport() == both.server.transport());
  return {both.client.transport(), both.client.transport_reason()};
}

}  // namespace

TEST_CASE("by default a Context has shm, verbs and tcp, in this order, where there is a device") {
  const Context context;
  const std::vector<transport::capabilities> all = context.transports();
  REQUIRE(all.size() == 3);
  CHECK(all[0].transport == kind::shm);
  CHECK(all[1].transport == kind::verbs);
  CHECK(all[2].transport == kind::tcp);
  CHECK(context.missing().empty());
}

TEST_CASE("shm on one host; verbs where a route exists; tcp otherwise; and the reason is said") {
  const auto [first, why_first] = chosen({}, own_host());
  CHECK(first == kind::shm);
  CHECK(why_first.find("shm: the preferred one") != std::string::npos);
  const auto [second, why_second] = chosen({kind::verbs, kind::tcp}, own_host());
  CHECK(second == kind::verbs);
  CHECK(why_second.find("verbs: the preferred one") != std::string::npos);
  const auto [third, why_third] = chosen({kind::verbs, kind::tcp}, "127.0.0.1");
  CHECK(third == kind::tcp);
  CHECK(why_third.find("verbs: no RDMA device leads to 127.0.0.1") != std::string::npos);
}

TEST_CASE("an address without an RDMA device is listened on by the other transports alone") {
  context_options o;
  o.transports = {kind::verbs, kind::tcp};
  Context context(o);
  Worker worker(context);
  CHECK(worker.listen("127.0.0.1:0").ok());
  o.transports = {kind::verbs};
  Context rdma_only(o);
  Worker lonely(rdma_only);
  const result<Listener> none = lonely.listen("192.0.2.1:0");
  REQUIRE(none.code() == errc::unreachable);
  CHECK(none.why().message().find("no RDMA device has the address") != std::string::npos);
}

TEST_CASE("memory registered with several transports has a key for each") {
  Context context;
  MemoryRegion region = context.allocate(4096, every_right).value();
  const RemoteSlice all = exported(region).all();
  for (kind k : {kind::shm, kind::verbs, kind::tcp}) CHECK(all.rkey(k) != 0);
  CHECK(all.rkey(kind::verbs) <= UINT32_MAX);
}
