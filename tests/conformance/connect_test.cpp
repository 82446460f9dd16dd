// Connecting: listening, connecting, accepting, rejecting, and the private data of both messages.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <array>

using namespace cordma;
using namespace cordma::test;

namespace {

std::vector<std::byte> some_bytes(std::size_t n, std::uint64_t seed) {
  std::vector<std::byte> bytes(n);
  fill(bytes, seed);
  return bytes;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

task<void> echo_once(stage& on, wire& w) {
  MemoryRegion out = client_memory(on, 64);
  MemoryRegion in = server_memory(on, 64);
  fill(out.bytes(), 3);
  recv_operation receiving = w.server.recv(in).start();
  co_await w.client.send(out);
  co_await receiving;
  CHECK(filled(in.bytes(), 3));
}

}  // namespace

TEST_CASE("I4: private data travels with the request and with the accept, up to the limits") {
  stage s;
  s.play([](stage& on) -> task<> {
    const std::size_t with_request = on.caps().max_connect_data;
    const std::size_t with_accept = on.caps().max_accept_data;
    // The capacity of rdma_cm's private data, less the part that verbs uses itself.
    const bool by_rdma_cm = on.over() == transport::kind::verbs;
    CHECK(with_request >= (by_rdma_cm ? 48 : 56));
    CHECK(with_accept >= (by_rdma_cm ? 140 : 196));
    Listener listener = on.server().listen(on.server_address()).value();
    for (const bool full : {false, true}) {
      const std::vector<std::byte> asked = some_bytes(full ? with_request : 0, 1);
      const std::vector<std::byte> answered = some_bytes(full ? with_accept : 0, 2);
      connect_options to;
      to.private_data = asked;
      connect_operation connecting = on.client().connect(on.reach(listener), to).start();
      ConnectionRequest request = co_await listener.next();
      CHECK(same(request.private_data(), asked));
      CHECK(request.transport() == on.over());
      CHECK_FALSE(request.peer_address().empty());
      connect_options accept;
      accept.private_data = answered;
      Endpoint server = co_await request.accept(accept);
      Endpoint client = co_await connecting;
      CHECK(same(client.peer_data(), answered));
      CHECK(same(server.peer_data(), asked));
      CHECK(client.state() == endpoint_state::connected);
      CHECK(server.state() == endpoint_state::connected);
      CHECK(client.transport() == on.over());
    }
  });
}

TEST_CASE("I4: private data above the limit is refused on the side that has it") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    const std::vector<std::byte> too_much = some_bytes(on.caps().max_connect_data + 1, 1);
    connect_options to;
    to.private_data = too_much;
    const result<Endpoint> refused = co_await on.client().connect(on.reach(listener), to).result();
    REQUIRE(refused.code() == errc::invalid_value);
    const std::string most = std::to_string(on.caps().max_connect_data);
    CHECK(refused.why().message().find(most) != std::string::npos);

    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    const std::vector<std::byte> far_too_much = some_bytes(on.caps().max_accept_data + 1, 1);
    CHECK(request.reject(far_too_much).code() == errc::invalid_value);
    connect_options accept;
    accept.private_data = far_too_much;
    const result<Endpoint> unaccepted = co_await request.accept(accept).result();
    CHECK(unaccepted.code() == errc::invalid_value);
    // The request is unanswered, so it is rejected when its last holder is destroyed.
    request = ConnectionRequest();
    const result<Endpoint> unconnected = co_await connecting.result();
    CHECK(unconnected.code() == errc::rejected);
  });
}

TEST_CASE("I4: a rejection reaches the client with its reason") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    for (std::size_t size :
         {std::size_t{0}, std::size_t{20}, std::size_t{on.caps().max_accept_data}}) {
      const std::vector<std::byte> reason = some_bytes(size, size);
      connect_operation connecting = on.client().connect(on.reach(listener)).start();
      ConnectionRequest request = co_await listener.next();
      CHECK(request.reject(reason).ok());
      CHECK(request.reject(reason).code() == errc::bad_state);
      const result<Endpoint> twice = co_await request.accept().result();
      CHECK(twice.code() == errc::bad_state);
      const result<Endpoint> r = co_await connecting.result();
      CHECK(r.code() == errc::rejected);
      CHECK(same(connecting.rejection(), reason));
    }
  });
}

TEST_CASE("I4: a request dropped unanswered, or never really accepted, is rejected") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation first = on.client().connect(on.reach(listener)).start();
    ConnectionRequest dropped = co_await listener.next();
    dropped = ConnectionRequest();
    const result<Endpoint> one = co_await first.result();
    CHECK(one.code() == errc::rejected);

    connect_operation second = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    {
      connect_operation never_started = request.accept();
      request = ConnectionRequest();
    }
    const result<Endpoint> two = co_await second.result();
    CHECK(two.code() == errc::rejected);
  });
}

TEST_CASE("K3: a request is accepted once") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    Endpoint server = co_await request.accept();
    const result<Endpoint> again = co_await request.accept().result();
    CHECK(again.code() == errc::bad_state);
    CHECK(request.reject().code() == errc::bad_state);
    Endpoint client = co_await connecting;
    wire w(std::move(client), std::move(server));
    co_await echo_once(on, w);
  });
}

TEST_CASE("K3: a request that could not be accepted as asked can still be accepted, or rejected") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_options beyond;
    beyond.endpoint.read_depth = on.caps().max_read_depth + 1;
    for (const bool accepted : {true, false}) {
      CAPTURE(accepted);
      connect_operation connecting = on.client().connect(on.reach(listener)).start();
      ConnectionRequest request = co_await listener.next();
      const result<Endpoint> refused = co_await request.accept(beyond).result();
      CHECK(refused.code() == errc::invalid_value);
      if (!accepted) {
        CHECK(request.reject().ok());
        const result<Endpoint> r = co_await connecting.result();
        CHECK(r.code() == errc::rejected);
        continue;
      }
      Endpoint server = co_await request.accept();
      Endpoint client = co_await connecting;
      wire w(std::move(client), std::move(server));
      co_await echo_once(on, w);
    }
  });
}

TEST_CASE("I4: connecting where nobody listens is unreachable, and the sentence says where") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::string gone;
    {
      Listener listener = on.server().listen(on.server_address()).value();
      gone = on.reach(listener);
    }
    const result<Endpoint> r = co_await on.client().connect(gone).result();
    REQUIRE(r.code() == errc::unreachable);
    CHECK(r.why().message().find(gone) != std::string::npos);
    CHECK(r.why().message().find(transport::name(on.over())) != std::string::npos);
    if (on.over() != transport::kind::sim) {
      CHECK(r.why().message().find("start the service") != std::string::npos);
    }
    CHECK(std::string(r.why().operation()) == "connect");
  });
}

TEST_CASE("I4: a port in use is in_use, and the sentence names the address") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    const std::uint16_t port = listener.bound().port;
    CHECK(port != 0);
    const result<Listener> second = on.server().listen(on.server_address(port));
    REQUIRE(second.code() == errc::in_use);
    CHECK(second.why().message().find(std::to_string(port)) != std::string::npos);
    if (on.over() != transport::kind::sim) {
      CHECK(second.why().message().find("another port") != std::string::npos);
    }
    listener.close();
    const result<Listener> third = on.server().listen(on.server_address(port));
    CHECK(third.ok());
    co_return;
  });
}

TEST_CASE("I4: addresses that are none are invalid_value at once") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const char* address : {"", "nowhere", "host:", "host:65536", "host:-1", "host:1x", ":"}) {
      CAPTURE(address);
      const result<Endpoint> r = co_await on.client().connect(address).result();
      CHECK(r.code() == errc::invalid_value);
      CHECK(on.server().listen(address).code() == errc::invalid_value);
    }
  });
}

TEST_CASE("I5: closing a listener rejects what waits, resumes who waits, and leaves connections") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    std::vector<wire> wires;
    for (int i = 0; i < 3; ++i) {
      connect_operation connecting = on.client().connect(on.reach(listener)).start();
      ConnectionRequest request = co_await listener.next();
      Endpoint server = co_await request.accept();
      Endpoint client = co_await connecting;
      wires.emplace_back(std::move(client), std::move(server));
    }
    connect_operation queued = on.client().connect(on.reach(listener)).start();
    for (int i = 0; i < 200; ++i) co_await moment(on);
    listener.close();
    const result<Endpoint> unanswered = co_await queued.result();
    // On verbs the request may still be on its way: then it finds no listener, or the kernel
    // rejects it.
    const bool too_late =
        on.over() == transport::kind::verbs &&
        (unanswered.code() == errc::unreachable || unanswered.code() == errc::connection_aborted);
    CHECK((too_late || unanswered.code() == errc::rejected));
    for (wire& w : wires) co_await echo_once(on, w);

    Listener other = on.server().listen(on.server_address()).value();
    next_operation waiting = other.next().start();
    CHECK_FALSE(waiting.done());
    other.close();
    const result<ConnectionRequest> ended = co_await waiting.result();
    CHECK(ended.code() == errc::shutdown);
    const result<ConnectionRequest> later = co_await other.next().result();
    CHECK(later.code() == errc::shutdown);
  });
}

TEST_CASE("K10: connecting is withdrawn when it is canceled, and the server goes on") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    for (int passes : {0, 1, 2, 5, 20, 100}) {
      CAPTURE(passes);
      connect_operation connecting = on.client().connect(on.reach(listener)).start();
      for (int i = 0; i < passes; ++i) co_await moment(on);
      connecting.cancel();
      const result<Endpoint> r = co_await connecting.result();
      CHECK(r.code() == errc::canceled);
    }
    // Requests of disconnected clients may arrive first; accepting them fails, or the connection
    // ends at once. On verbs the kernel may have lost the disconnect of a client: accepting then
    // waits as long as for a live client.
    connect_options patient;
    patient.endpoint.connect_timeout = std::chrono::seconds(60);
    connect_operation connecting = on.client().connect(on.reach(listener), patient).start();
    while (!connecting.done()) {
      next_operation coming = listener.next().start();
      while (!coming.done() && !connecting.done()) co_await moment(on);
      if (!coming.done()) break;
      ConnectionRequest request = co_await coming;
      const result<Endpoint> accepted = co_await request.accept().result();
      for (int i = 0; i < 200; ++i) co_await moment(on);
      if (accepted.ok() && connecting.done()) CHECK(accepted->state() == endpoint_state::connected);
    }
    Endpoint client = co_await connecting;
    CHECK(client.state() == endpoint_state::connected);
  });
}

TEST_CASE("I4: accepting a client that has gone away is connection_reset") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    connecting.cancel();
    const result<Endpoint> given_up = co_await connecting.result();
    CHECK(given_up.code() == errc::canceled);
    for (int i = 0; i < 200; ++i) co_await moment(on);
    const result<Endpoint> accepted = co_await request.accept().result();
    CHECK(accepted.code() == errc::connection_reset);
  });
}

TEST_CASE("K4: a Worker connects to itself, and an endpoint sends to its own Worker") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.server().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    Endpoint accepted = co_await request.accept();
    Endpoint connected = co_await connecting;
    MemoryRegion memory = server_memory(on, 128);
    fill(memory.bytes().first(64), 9);
    recv_operation receiving = accepted.recv(memory.all().part(64, 64)).start();
    co_await connected.send(memory.all().first(64));
    co_await receiving;
    CHECK(filled(memory.bytes().subspan(64), 9));
  });
}

TEST_CASE("B5: depths are granted at least as asked") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options asked;
    asked.send_depth = 100;
    asked.recv_depth = 33;
    wire w = co_await connect(on, asked, asked);
    CHECK(w.client.actual().send_depth >= 100);
    CHECK(w.client.actual().recv_depth >= 33);
    CHECK(w.server.actual().send_depth >= 100);
  });
}

TEST_CASE("I1: rights that are none and times that are over before they begin are refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    std::array<connect_options, 5> bad;
    bad[0].endpoint.remote_access = static_cast<cordma::access>(0xFF);
    bad[1].endpoint.peer_timeout = std::chrono::milliseconds(-1);
    bad[2].endpoint.connect_timeout = duration::zero();
    bad[3].endpoint.rnr_timer = std::chrono::milliseconds(-1);
    bad[4].endpoint.rnr_retry = 8;
    for (const connect_options& o : bad) {
      const result<Endpoint> r = co_await on.client().connect(on.reach(listener), o).result();
      CHECK(r.code() == errc::invalid_value);
      CHECK_FALSE(r.why().message().empty());
    }
    // An infinite timeout never expires.
    endpoint_options patient;
    patient.connect_timeout = duration::max();
    patient.peer_timeout = duration::max();
    wire w = co_await connect(on, patient, patient);
    co_await echo_once(on, w);
  });
}
