// The connection manager: its events, the parameters it negotiates, and the resources it leaves.
#include "raw_id.hpp"

#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/verbs/verbs_adapter.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>
#include <cordma/net/transport/verbs/wire.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

bool says(const failure& why, std::string_view words) {
  CAPTURE(why.message());
  return why.message().find(words) != std::string::npos;
}

}  // namespace

// Each event of rdma_cm with its effect here; events_test.cpp has the complete table.
TEST_CASE("M4: resolved, asked, answered, established, disconnected: a connection's life") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();  // CONNECT_REQUEST
    Endpoint server = co_await request.accept();           // ESTABLISHED
    Endpoint client = co_await connecting;  // ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_RESPONSE
    server.abort();
    while (client.state() != endpoint_state::closed) co_await client.state_changed();
    CHECK(client.first_cause()->code() == errc::connection_reset);  // DISCONNECTED
  });
}

TEST_CASE(
    "M4: an address that leads nowhere is not asked for again, one that is silent is, in its "
    "turn") {
  const auto with_port = [](std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    return transport::verbs::socket_address(&a, sizeof a);
  };
  transport::verbs::peer_addresses left({with_port(1), with_port(2), with_port(3)});
  const auto now = [&left] { return transport::verbs::port_of(left.current()->get()); };
  CHECK(now() == 1);
  left.pass_by();
  CHECK(now() == 2);
  left.drop();
  CHECK(now() == 3);
  left.pass_by();
  CHECK(now() == 1);
  left.pass_by();
  left.drop();
  CHECK(now() == 1);
  left.pass_by();
  CHECK(now() == 1);
  left.drop();
  CHECK(left.current() == nullptr);
}

TEST_CASE("M4: no address, no answer, nobody there, a no: each is told as what it is") {
  REQUIRE(std::system("ip neigh replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev wire0") == 0);
  stage s;
  s.play([](stage& on) -> task<> {
    connect_options impatient;
    impatient.endpoint.connect_timeout = 500ms;
    const result<Endpoint> off_the_map = co_await on.client().connect("192.0.2.1:7").result();
    CHECK(off_the_map.code() == errc::unreachable);  // ADDR_ERROR, or refused at once
    const result<Endpoint> silent =
        co_await on.client().connect("10.77.0.99:7", impatient).result();
    CHECK(silent.code() == errc::timed_out);  // no event arrives for a minute
    const result<Endpoint> nobody = co_await on.client().connect(own_host() + ":9").result();
    CHECK(nobody.code() == errc::unreachable);  // REJECTED, by the kernel
    CHECK(says(nobody.why(), "nobody listens"));

    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    REQUIRE(request.reject({}).ok());
    const result<Endpoint> refused = co_await connecting.result();
    CHECK(refused.code() == errc::rejected);  // REJECTED, by the program
  });
}

namespace {

// A listening adapter without a Worker: its queue pairs can be given events that the kernel did not
// send.
struct bare_adapter {
  bare_adapter()
      : device(transport::make_verbs({}).value()),
        at(device->open(loop).value()),
        listener(at->listen({.host = own_host()}).value()),
        place(transport::verbs::resolve(listener->bound(), false).value().front()) {}
  void turn() {
    bool progressed = false;
    CHECK(at->poll({}, progressed) == 0);
    static_cast<void>(loop.turn());
  }
  transport::cm_event next() {
    while (!at->has_events()) turn();
    return at->next_event();
  }
  transport::completion completed() {
    transport::completion one;
    bool progressed = false;
    while (at->poll({&one, 1}, progressed) == 0) static_cast<void>(loop.turn());
    return one;
  }
  transport::verbs::verbs_adapter& own() {
    return static_cast<transport::verbs::verbs_adapter&>(*at);
  }

  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<transport::domain> device;
  std::unique_ptr<transport::adapter> at;
  std::unique_ptr<transport::listener> listener;
  transport::verbs::socket_address place;
};

void put_in(transport::verbs::verbs_pair& pair, rdma_cm_event_type what, int status) {
  transport::verbs::cm_news news;
  news.what = what;
  news.status = status;
  pair.on_news(news);
}

}  // namespace

TEST_CASE("M4: where one address of a name does not answer the next one is tried") {
  bare_adapter here;
  transport::verbs::verbs_pair client(here.own(), {});
  REQUIRE(client.make().ok());
  client.begin({here.place, here.place}, own_host(), {});
  const transport::cm_event first = here.next();
  REQUIRE(first.what == transport::cm_event::type::connect_request);
  // The request is not answered, and after a minute the connection manager gives up.
  put_in(client, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  const transport::cm_event second = here.next();
  REQUIRE(second.what == transport::cm_event::type::connect_request);
  const auto server = here.at->accept(second.request, {}, {}).value();
  for (int up = 0; up < 2; ++up) {
    CHECK(here.next().what == transport::cm_event::type::established);
  }
}

TEST_CASE(
    "M4: a route error, a connect error, a changed address: what does not come here, put in") {
  bare_adapter here;
  transport::verbs::verbs_pair no_route(here.own(), {});
  REQUIRE(no_route.make().ok());
  no_route.begin({here.place}, own_host(), {});
  put_in(no_route, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
  const transport::cm_event lost = here.next();
  CHECK(lost.what == transport::cm_event::type::failed);
  CHECK(lost.why.code() == errc::unreachable);

  transport::verbs::verbs_pair broken(here.own(), {});
  REQUIRE(broken.make().ok());
  broken.begin({here.place}, own_host(), {});
  REQUIRE(here.next().what == transport::cm_event::type::connect_request);
  put_in(broken, RDMA_CM_EVENT_ADDR_CHANGE, 0);
  CHECK_FALSE(here.at->has_events());
  put_in(broken, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  const transport::cm_event ended = here.next();
  CHECK(ended.what == transport::cm_event::type::failed);
  CHECK(ended.why.code() == errc::connection_aborted);
  CHECK(says(ended.why, "CONNECT_ERROR"));
}

namespace {

// A client with an accepted request. Each side makes progress only when it is polled, so the
// client's last handshake message does not arrive before that.
struct accepted_client {
  bare_adapter here;
  bare_adapter there;
  transport::verbs::verbs_pair client{there.own(), {}};
  std::unique_ptr<transport::queue_pair> server;

  accepted_client() {
    REQUIRE(client.make().ok());
    client.begin({here.place}, own_host(), {});
    while (!here.at->has_events()) {
      here.turn();
      there.turn();
    }
    const transport::cm_event asked = here.at->next_event();
    REQUIRE(asked.what == transport::cm_event::type::connect_request);
    server = here.at->accept(asked.request, {}, {}).value();
    transport::completion now;
    CHECK(server->post_recv({.id = 7}, now) == transport::posted::pending);
  }
  void says_something() {
    REQUIRE(there.next().what == transport::cm_event::type::established);
    transport::completion now;
    CHECK(client.post_send({.id = 8}, now) == transport::posted::pending);
    CHECK(there.completed().status == transport::wc_status::success);
  }
  void is_heard() {
    const transport::completion heard = here.completed();
    CHECK(heard.id == 7);
    CHECK(heard.status == transport::wc_status::success);
  }
};

}  // namespace

TEST_CASE("M6: a message that comes before the client's last word stands for it") {
  accepted_client c;
  c.says_something();
  ibv_cq* const both = c.here.own().promise(0).value();
  c.here.own().drain(both);  // without reading rdma_cm's events
  REQUIRE(c.here.at->has_events());
  const transport::cm_event up = c.here.at->next_event();
  CHECK(up.what == transport::cm_event::type::established);
  CHECK(up.pair == c.server.get());
  c.is_heard();
  CHECK_FALSE(c.here.at->has_events());  // it is established once
}

TEST_CASE("M6: so does the device's event that a first packet came, put in") {
  accepted_client c;
  auto& waiting = static_cast<transport::verbs::verbs_pair&>(*c.server);
  c.here.own().tell({.what = IBV_EVENT_COMM_EST,
                     .about = transport::verbs::async_event::subject::own,
                     .pair = waiting.number()});
  const transport::cm_event up = c.here.next();
  CHECK(up.what == transport::cm_event::type::established);
  CHECK(up.pair == c.server.get());
  c.says_something();
  c.is_heard();
  CHECK_FALSE(c.here.at->has_events());
}

TEST_CASE("M5: read depths 1 and 16: as many reads as are started come back, at the agreed depth") {
  for (const auto& [ours, theirs] : {std::pair{1U, 16U}, std::pair{16U, 1U}, std::pair{16U, 16U}}) {
    CAPTURE(ours);
    CAPTURE(theirs);
    stage s;
    s.play(
        [](stage& on, std::uint32_t client_depth, std::uint32_t server_depth) -> task<> {
          endpoint_options client;
          client.read_depth = client_depth;
          endpoint_options server;
          server.read_depth = server_depth;
          wire w = co_await connect(on, client, server);
          const std::uint32_t agreed = std::min(client_depth, server_depth);
          CHECK(w.client.actual().read_depth == agreed);
          CHECK(w.server.actual().read_depth == agreed);
          constexpr std::size_t reads = 48;
          MemoryRegion in = client_memory(on, reads * 64);
          MemoryRegion out = server_memory(on, reads * 64);
          fill(out.bytes(), 7);
          const RemoteMemory remote = exported(out);
          std::vector<send_operation> under_way;
          under_way.reserve(reads);
          for (std::size_t i = 0; i < reads; ++i) {
            const RemoteSlice from = remote.slice(i * 64, 64).value();
            under_way.push_back(w.client.read(from, in.all().part(i * 64, 64)).start());
          }
          for (send_operation& one : under_way) co_await one;
          CHECK(filled(in.bytes(), 7));
        },
        ours, theirs);
  }
}

TEST_CASE("M5: private data arrives as long as it was given, though the message is padded") {
  stage s;
  s.play([](stage& on) -> task<> {
    const std::size_t with_request = on.caps().max_connect_data;
    const std::size_t with_accept = on.caps().max_accept_data;
    Listener listener = on.server().listen(on.server_address()).value();
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, with_request}) {
      CAPTURE(length);
      std::vector<std::byte> asked(length);
      std::vector<std::byte> answered(with_accept - length);
      fill(asked, 1);
      fill(answered, 2);
      connect_options ask;
      ask.private_data = asked;
      connect_options answer;
      answer.private_data = answered;
      connect_operation connecting = on.client().connect(on.reach(listener), ask).start();
      ConnectionRequest request = co_await listener.next();
      CHECK(std::ranges::equal(request.private_data(), asked));
      Endpoint server = co_await request.accept(answer);
      Endpoint client = co_await connecting;
      CHECK(std::ranges::equal(client.peer_data(), answered));
    }
  });
}

TEST_CASE("M7: a port whose listener has gone is listened on again, while its connections live") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener first = on.server().listen(on.server_address()).value();
    const std::uint16_t port = first.bound().port;
    connect_operation connecting = on.client().connect(on.reach(first)).start();
    ConnectionRequest request = co_await first.next();
    Endpoint server = co_await request.accept();
    Endpoint client = co_await connecting;
    CHECK(on.server().listen(on.server_address(port)).code() == errc::in_use);
    first.close();
    Listener second = on.server().listen(on.server_address(port)).value();
    connect_operation again = on.client().connect(on.reach(second)).start();
    ConnectionRequest other = co_await second.next();
    Endpoint other_server = co_await other.accept();
    Endpoint other_client = co_await again;
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    recv_operation receiving = server.recv(in).start();
    co_await client.send(out);
    co_await receiving;
  });
}

// This is why listeners have no option for it.
TEST_CASE("M7: the kernel lets two share an address that both may use again, and neither listen") {
  const auto may_again = [](raw_id& id) {
    int on = 1;
    return rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
  };
  raw_id holder;
  raw_id second;
  sockaddr_in place = raw_id::self(0);
  REQUIRE(may_again(holder) == 0);
  REQUIRE(rdma_bind_addr(holder.get(), reinterpret_cast<sockaddr*>(&place)) == 0);
  place = raw_id::self(holder.port());
  REQUIRE(may_again(second) == 0);
  CHECK(rdma_bind_addr(second.get(), reinterpret_cast<sockaddr*>(&place)) == 0);
  CHECK(rdma_listen(second.get(), 1) != 0);
  CHECK(errno == EADDRINUSE);
}

namespace {

// Checks that a request to this address reaches this listener.
task<> leads_to(stage* on, const std::string host, Listener* listener) {
  const std::string where = host + ":" + std::to_string(listener->bound().port);
  connect_operation connecting = on->client().connect(where).start();
  ConnectionRequest request = co_await listener->next();
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
}

}  // namespace

TEST_CASE("M7: a listener of IPv6 only leaves its port to one of IPv4") {
  const char* const v6 = std::getenv("RDMA_HOST_SELF_V6");
  REQUIRE(v6 != nullptr);
  stage s;
  s.play(
      [](stage& on, const std::string own_v6) -> task<> {
        Listener both = on.server().listen("[::]:0").value();
        CHECK(on.server().listen(on.server_address(both.bound().port)).code() == errc::in_use);
        Listener six = on.server().listen("[::]:0", {.transport = {}, .ipv6_only = true}).value();
        Listener four = on.server().listen(on.server_address(six.bound().port)).value();
        co_await leads_to(&on, own_v6, &six);
        co_await leads_to(&on, own_host(), &four);
      },
      "[" + std::string(v6) + "]");
}

namespace {

// Connects by descriptors, which do not use the connection manager: a killed peer then sends
// nothing.
int silent_life(wire_to_peer& parent) {
  host h;
  Endpoint e = h.worker.prepare().value();
  const std::vector<std::byte> mine = e.descriptor().value();
  parent.tell(std::string(reinterpret_cast<const char*>(mine.data()), mine.size()));
  const std::string theirs = parent.hear();
  e.connect(std::as_bytes(std::span(theirs))).value();
  return h.worker.run([](Endpoint* of) -> task<int> {
    while (of->state() != endpoint_state::closed) co_await of->state_changed();
    co_return 0;
  }(&e));
}

}  // namespace

namespace {

// Sends a connection request with none or a part of a hello, or only resolves the route; lives
// until it is killed.
enum class knock : std::uint8_t { way_found, no_hello, part_of_a_hello };

task<> knock_at(std::uint16_t port, knock how, wire_to_peer* parent) {
  raw_id client;
  sockaddr_in to = raw_id::self(port);
  REQUIRE(rdma_resolve_addr(client.get(), nullptr, reinterpret_cast<sockaddr*>(&to), 2000) == 0);
  co_await client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  REQUIRE(rdma_resolve_route(client.get(), 2000) == 0);
  co_await client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  const std::uint8_t begun = transport::verbs::hello_magic | transport::verbs::wire_version;
  rdma_conn_param param{};
  param.qp_num = 4711;
  param.private_data = &begun;
  param.private_data_len = how == knock::part_of_a_hello ? 1 : 0;
  if (how != knock::way_found) REQUIRE(rdma_connect(client.get(), &param) == 0);
  parent->tell("knocked");
  static_cast<void>(parent->hear());
}

int stranger_life(wire_to_peer& parent, knock how) {
  const auto port = static_cast<std::uint16_t>(std::stoi(parent.hear()));
  reactor loop;
  cordma::run(loop, knock_at(port, how, &parent));
  return 0;
}

task<> serve_after(host* h, child_process* stranger) {
  Listener listener = h->worker.listen(own_host() + ":0").value();
  next_operation coming = listener.next().start();
  stranger->wire().tell(std::to_string(listener.bound().port));
  std::optional<std::string> heard;
  while (!(heard = stranger->wire().hear_now())) co_await yield();
  REQUIRE(*heard == "knocked");
  stranger->kill();
  connect_operation connecting =
      h->worker.connect(own_host() + ":" + std::to_string(listener.bound().port)).start();
  ConnectionRequest request = co_await coming;  // only this request gets this far
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
  MemoryRegion memory = h->context.allocate(16).value();
  recv_operation receiving = server.recv(memory.all().part(8, 8)).start();
  co_await client.send(memory.all().first(8));
  co_await receiving;
}

}  // namespace

TEST_CASE("K10: a client killed with -9 before its hello, or within it: the server goes on") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event}) {
    for (const knock how : {knock::way_found, knock::no_hello, knock::part_of_a_hello}) {
      CAPTURE(name(mode));
      CAPTURE(static_cast<int>(how));
      child_process stranger([how](wire_to_peer& w) { return stranger_life(w, how); });
      host h(mode);
      h.worker.run(serve_after(&h, &stranger));
      CHECK(h.worker.counters().inflight == 0);
    }
  }
}

TEST_CASE("M7: the timeout of an acknowledgement decides how soon a dead peer is known") {
  // Seven tries of 4.096 us * 2^n: 0.1 s, and 3.7 s, in which the other one has finished.
  constexpr std::array<std::uint8_t, 2> codes{12, 17};
  std::vector<child_process> peers;
  std::vector<Context> contexts;
  std::vector<std::unique_ptr<Worker>> workers;
  reactor loop;
  std::vector<Endpoint> ends;
  for (std::size_t i = 0; i < codes.size(); ++i) peers.emplace_back(silent_life);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    context_options options = host::only();
    options.verbs.timeout = codes[i];
    contexts.emplace_back(options);
    workers.push_back(std::make_unique<Worker>(contexts.back(), loop));
    Endpoint e = workers.back()->prepare().value();
    const std::string theirs = peers[i].wire().hear();
    const std::vector<std::byte> mine = e.descriptor().value();
    peers[i].wire().tell(std::string(reinterpret_cast<const char*>(mine.data()), mine.size()));
    e.connect(std::as_bytes(std::span(theirs))).value();
    ends.push_back(std::move(e));
  }
  cordma::run(loop,
              [](std::vector<Context>* of, std::vector<Endpoint>* both,
                 std::vector<child_process>* to_kill) -> task<> {
                for (Endpoint& e : *both) {
                  while (e.state() == endpoint_state::connecting) co_await e.state_changed();
                  REQUIRE(e.state() == endpoint_state::connected);
                }
                for (child_process& p : *to_kill) p.kill();
                MemoryRegion a = (*of)[0].allocate(8).value();
                MemoryRegion b = (*of)[1].allocate(8).value();
                send_operation slow = (*both)[1].send(b).start();
                send_operation quick = (*both)[0].send(a).start();
                const result<void> first = co_await quick.result();
                CHECK_FALSE(first.ok());
                CHECK_FALSE(slow.done());
                const result<void> second = co_await slow.result();
                CHECK_FALSE(second.ok());
              }(&contexts, &ends, &peers));
}
