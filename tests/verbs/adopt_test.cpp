// A program that listens with librdmacm and hands its clients to a Worker.
#include "raw_id.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <cstring>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

connect_options saying(std::string_view words) {
  connect_options o;
  o.private_data = std::as_bytes(std::span(words));
  return o;
}

task<> exchange(stage* on, Endpoint* client, Endpoint* server) {
  MemoryRegion out = client_memory(*on, 5000);
  MemoryRegion in = server_memory(*on, 5000);
  fill(out.bytes(), 3);
  recv_operation receiving = server->recv(in).start();
  co_await client->send(out);
  co_await receiving;
  CHECK(filled(in.bytes(), 3));
}

}  // namespace

TEST_CASE(
    "H2: a client of the program's own listener is adopted, accepted and talked to, with its "
    "words") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event}) {
    CAPTURE(name(mode));
    stage s({.mode = mode});
    s.play([](stage& on) -> task<> {
      raw_id listening;
      listening.listen();
      for (int i = 0; i < 3; ++i) {
        connect_operation connecting =
            on.client().connect(listening.where(), saying("may I come in?")).start();
        rdma_cm_event* const event = co_await listening.next();
        ConnectionRequest request = on.server().adopt(event).value();
        CHECK(text_of(request.private_data()) == "may I come in?");
        CHECK(request.peer_address().starts_with(own_host()));
        Endpoint server = co_await request.accept(saying("do"));
        Endpoint client = co_await connecting;
        CHECK(text_of(client.peer_data()) == "do");
        co_await exchange(&on, &client, &server);
        co_await client.close();
        while (server.state() != endpoint_state::closed) co_await server.state_changed();
        CHECK(server.first_cause()->code() == errc::not_connected);
      }
    });
  }
}

TEST_CASE("H2: an adopted client is rejected with words, or by being dropped, and handed over") {
  stage s;
  s.play([](stage& on) -> task<> {
    raw_id listening;
    listening.listen();
    connect_operation first = on.client().connect(listening.where()).start();
    rdma_cm_event* const one = co_await listening.next();
    on.server().adopt(one).value().reject(std::as_bytes(std::span("no", 2))).value();
    const result<Endpoint> refused = co_await first.result();
    CHECK(refused.code() == errc::rejected);

    connect_operation second = on.client().connect(listening.where()).start();
    rdma_cm_event* const two = co_await listening.next();
    CHECK(on.server().adopt(two).ok());  // adopted and dropped
    const result<Endpoint> dropped = co_await second.result();
    CHECK(dropped.code() == errc::rejected);

    Worker other(on.server_context(), on.loop());
    connect_operation third = on.client().connect(listening.where()).start();
    rdma_cm_event* const three = co_await listening.next();
    ConnectionRequest request = on.server().adopt(three).value();
    ConnectionRequest moved = request.hand_over(other).value();
    Endpoint server = co_await moved.accept();
    Endpoint client = co_await third;
    co_await exchange(&on, &client, &server);
  });
}

TEST_CASE("H2: a client that is no cordma is turned away, and another event stays the program's") {
  stage s;
  s.play([](stage& on) -> task<> {
    raw_id listening;
    listening.listen();
    raw_id client;
    sockaddr_in to = raw_id::self(listening.port());
    REQUIRE(rdma_resolve_addr(client.get(), nullptr, reinterpret_cast<sockaddr*>(&to), 2000) == 0);
    rdma_cm_event* const resolved = co_await client.next();
    REQUIRE(resolved->event == RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(on.server().adopt(resolved).code() == errc::invalid_value);
    rdma_ack_cm_event(resolved);
    REQUIRE(rdma_resolve_route(client.get(), 2000) == 0);
    co_await client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param param{};
    param.qp_num = 4711;
    REQUIRE(rdma_connect(client.get(), &param) == 0);
    rdma_cm_event* const asked = co_await listening.next();
    CHECK(on.server().adopt(asked).code() == errc::connection_aborted);
    co_await client.expect(RDMA_CM_EVENT_REJECTED);
  });
}

TEST_CASE(
    "H2: what is adopted and never answered goes with its Worker, and the listener goes first or "
    "last") {
  for (const bool listener_first : {false, true}) {
    CAPTURE(listener_first);
    stage s;
    s.play(
        [](stage& on, bool first) -> task<> {
          std::optional<raw_id> listening;
          listening.emplace();
          listening->listen();
          connect_operation connecting = on.client().connect(listening->where()).start();
          rdma_cm_event* const event = co_await listening->next();
          ConnectionRequest request = on.server().adopt(event).value();
          if (first) listening.reset();
          on.drop_server();
          const result<Endpoint> r = co_await connecting.result();
          CHECK_FALSE(r.ok());
        },
        listener_first);
  }
}
