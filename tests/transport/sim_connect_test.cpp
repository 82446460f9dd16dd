// Connecting, closing and killing on the simulator.
#include "sim_support.hpp"

namespace cordma::sim_test {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> b;
  for (const char c : text) b.push_back(static_cast<std::byte>(c));
  return b;
}

TEST_CASE("sim connect: private data reaches both sides, even where half of the packets are lost") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim connect: private data*"));
    world w({.seed = seed, .link = {.loss = 0.5, .duplicate = 0.2, .reorder = 0.2}});
    auto door = w.b().device->listen({"b", 7471}).value();
    CHECK(door->bound().text() == "b:7471");
    auto client = w.a().device->connect({"b", 7471}, {}, bytes_of("hello")).value();
    REQUIRE(w.until([&] { return !w.b().events.empty(); }));
    CHECK(w.b().events[0].what == event_type::connect_request);
    CHECK(w.b().events[0].from == door.get());
    CHECK(w.b().events[0].data == bytes_of("hello"));
    auto server = w.b().device->accept(w.b().events[0].request, {}, bytes_of("welcome")).value();
    CHECK(w.b().device->accept(w.b().events[0].request, {}, {}).code() == errc::bad_state);
    REQUIRE(w.until([&] { return !w.a().events.empty() && w.b().events.size() == 2; }));
    CHECK(w.a().events[0].what == event_type::established);
    CHECK(w.a().events[0].data == bytes_of("welcome"));
    CHECK(w.b().events[1].what == event_type::established);
    CHECK(client->peer_address() == "b:7471");
    CHECK(server->local_address() == "b:7471");
    CHECK(server->peer_address() == client->local_address());
    w.settle();
    CHECK(w.b().events.size() == 2);  // no request arrived twice
  }
}

TEST_CASE("sim connect: a rejection carries its data, once") {
  for (const std::uint64_t seed : seeds(10)) {
    world w({.seed = seed, .link = {.loss = 0.4}});
    auto door = w.b().device->listen({"", 0}).value();
    auto client = w.a().device->connect({"b", door->bound().port}, {}, {}).value();
    REQUIRE(w.until([&] { return !w.b().events.empty(); }));
    const std::uint64_t request = w.b().events[0].request;
    CHECK(w.b().device->reject(request, bytes_of("full house")).ok());
    CHECK(w.b().device->reject(request, {}).code() == errc::bad_state);
    REQUIRE(w.until([&] { return !w.a().events.empty(); }));
    CHECK(w.a().events[0].what == event_type::rejected);
    CHECK(w.a().events[0].why.code() == errc::rejected);
    CHECK(w.a().events[0].data == bytes_of("full house"));
    w.settle();
    CHECK(w.b().events.size() == 1);
  }
}

TEST_CASE("sim connect: nobody there is told apart from no answer") {
  world w;
  CHECK(w.a().device->connect({"nowhere", 1}, {}, {}).code() == errc::unreachable);
  auto closed_port = w.a().device->connect({"b", 1}, {}, {}).value();
  REQUIRE(w.until([&] { return !w.a().events.empty(); }));
  CHECK(w.a().events[0].what == event_type::failed);
  CHECK(w.a().events[0].why.code() == errc::unreachable);

  w.net.partition("a", "b");
  const time_point start = w.now();
  auto cut_off = w.a().device->connect({"b", 1}, {}, {}).value();
  REQUIRE(w.until([&] { return w.a().events.size() == 2; }));
  CHECK(w.a().events[1].what == event_type::failed);
  CHECK(w.a().events[1].why.code() == errc::timed_out);
  CHECK(w.now() - start == 5s);
}

TEST_CASE("sim connect: a port belongs to one listener, and comes free with it") {
  world w;
  auto first = w.b().device->listen({"", 7}).value();
  CHECK(w.b().device->listen({"", 7}).code() == errc::in_use);
  CHECK(w.b().device->listen({"", 0}).value()->bound().port != 0);
  CHECK(w.b().device->listen({"a", 8}).code() == errc::not_found);
  first.reset();
  CHECK(w.b().device->listen({"", 7}).ok());
}

TEST_CASE("sim connect: destroying a listener rejects what waits and keeps what is connected") {
  world w;
  link_pair l = join_up(w);
  auto door = w.b().device->listen({"", 9}).value();
  auto client = w.a().device->connect({"b", 9}, {}, {}).value();
  REQUIRE(w.until([&] { return !w.b().events.empty(); }));
  door.reset();
  CHECK(w.b().device->accept(w.b().events[0].request, {}, {}).code() == errc::bad_state);
  REQUIRE(w.until([&] { return !w.a().events.empty(); }));
  CHECK(w.a().events[0].what == event_type::rejected);
  block m(w.a(), 8);
  block n(w.b(), 8);
  recv(*l.server, 1, n.part(0, 8));
  send(*l.client, 2, m.part(0, 8));
  CHECK(w.until([&] { return !w.a().done.empty() && !w.b().done.empty(); }));
}

TEST_CASE("sim connect: a request handed over is accepted by another adapter of the host") {
  world w;
  party other(w.loop, w.b().dom);
  auto door = w.b().device->listen({"", 9}).value();
  auto client = w.a().device->connect({"b", 9}, {}, {}).value();
  REQUIRE(w.until([&] { return !w.b().events.empty(); }));
  const std::uint64_t request = w.b().events[0].request;
  CHECK(w.b().device->hand_over(request, *w.a().device).code() == errc::not_supported);
  const std::uint64_t there = w.b().device->hand_over(request, *other.device).value();
  CHECK(w.b().device->accept(request, {}, {}).code() == errc::bad_state);
  auto server = other.device->accept(there, {}, {}).value();
  REQUIRE(w.until([&] { return !w.a().events.empty() && !other.events.empty(); }));
  CHECK(other.events[0].what == event_type::established);
}

TEST_CASE("sim connect: a host connects to itself") {
  world w;
  link_pair l = join_up(w, w.a(), w.a(), "a");
  block m(w.a(), 16);
  m.fill(1);
  recv(*l.server, 1, m.part(8, 8));
  send(*l.client, 2, m.part(0, 8));
  CHECK(w.until([&] { return w.a().done.size() == 2; }));
  CHECK(m.holds(1, 8, 8));
}

TEST_CASE("sim connect: a client that is gone before the answer is a failure at the server") {
  world w({.link = {.loss = 0.3}});
  auto door = w.b().device->listen({"", 9}).value();
  auto client = w.a().device->connect({"b", 9}, {}, {}).value();
  REQUIRE(w.until([&] { return !w.b().events.empty(); }));
  client.reset();
  auto server = w.b().device->accept(w.b().events[0].request, {}, {}).value();
  block n(w.b(), 8);
  recv(*server, 1, n.part(0, 8));
  REQUIRE(w.until([&] { return w.b().events.size() == 2 && w.b().done.size() == 1; }));
  CHECK(w.b().events[1].what == event_type::failed);
  CHECK(w.b().events[1].why.code() == errc::connection_reset);
  CHECK(w.b().done[0].status == wc_status::wr_flush_err);
  w.settle();
  CHECK(w.a().events.empty());
}

TEST_CASE("sim connect: too many queue pairs are refused") {
  world w({.max_queue_pairs = 1});
  auto first = w.a().device->connect({"b", 1}, {}, {}).value();
  CHECK(w.a().device->connect({"b", 1}, {}, {}).code() == errc::full);
  queue_pair_options o;
  o.send_depth = 1U << 20;
  CHECK(w.b().device->connect({"a", 1}, o, {}).code() == errc::invalid_value);
}

TEST_CASE("sim close: what was posted is carried out, the rest is flushed, both sides are told") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim close: what was posted*"));
    world w({.seed = seed, .link = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.1}});
    link_pair l = join_up(w);
    block m(w.a(), 16 * 3000);
    block n(w.b(), 16 * 3000);
    m.fill(seed);
    for (std::size_t i = 0; i < 16; ++i) recv(*l.server, i, n.part(i * 3000, 3000));
    recv(*l.client, 99, m.part(0, 8));
    for (std::size_t i = 0; i < 8; ++i) send(*l.client, i, m.part(i * 3000, 3000));
    l.client->disconnect();
    for (std::size_t i = 8; i < 16; ++i) send(*l.client, i, m.part(i * 3000, 3000));
    l.client->disconnect();
    REQUIRE(w.until([&] { return w.a().done.size() == 17 && w.b().done.size() == 16; }));
    for (std::size_t i = 0; i < 16; ++i) {
      CHECK(w.a().done[i].id == i);
      CHECK(w.b().done[i].id == i);
      const wc_status expected = i < 8 ? wc_status::success : wc_status::wr_flush_err;
      CHECK(w.a().done[i].status == expected);
      CHECK(w.b().done[i].status == expected);
    }
    CHECK(n.holds(seed, 0, 8 * 3000));
    for (party* p : {&w.a(), &w.b()}) {
      REQUIRE(p->events.size() == 1);
      CHECK(p->events[0].what == event_type::disconnected);
      CHECK(p->events[0].why.code() == errc::not_connected);
    }
  }
}

TEST_CASE("sim close: both sides at once lose nothing") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim close: both sides at once lose nothing"));
    world w({.seed = seed, .link = {.bits_per_second = 100'000'000, .loss = 0.1}});
    link_pair l = join_up(w);
    block m(w.a(), 200'000);
    block n(w.b(), 200'000);
    recv(*l.client, 1, m.part(100'000, 100'000));
    recv(*l.server, 1, n.part(100'000, 10));
    send(*l.client, 2, m.part(0, 10));
    send(*l.server, 2, n.part(0, 100'000));
    l.client->disconnect();
    l.server->disconnect();
    REQUIRE(w.until([&] { return w.a().events.size() == 1 && w.b().events.size() == 1; }));
    for (party* p : {&w.a(), &w.b()}) {
      CHECK(p->events[0].why.code() == errc::not_connected);
      REQUIRE(p->done.size() == 2);
      for (const completion& c : p->done) CHECK(c.status == wc_status::success);
    }
  }
}

TEST_CASE("sim close: abort and destroying are a reset for the peer") {
  for (const bool destroy : {false, true}) {
    CAPTURE(destroy);
    world w({.link = {.loss = 0.3}});
    link_pair l = join_up(w);
    block m(w.a(), 8);
    block n(w.b(), 8);
    recv(*l.client, 1, m.part(0, 8));
    recv(*l.server, 2, n.part(0, 8));
    if (destroy) {
      l.client.reset();
    } else {
      l.client->abort();
      REQUIRE(w.until([&] { return w.a().done.size() == 1; }));
      CHECK(w.a().done[0].status == wc_status::wr_flush_err);
      CHECK(w.a().events.at(0).why.code() == errc::connection_reset);
    }
    REQUIRE(w.until([&] { return w.b().done.size() == 1; }));
    CHECK(w.b().done[0].status == wc_status::wr_flush_err);
    CHECK(w.b().events.at(0).what == event_type::disconnected);
    CHECK(w.b().events.at(0).why.code() == errc::connection_reset);
    w.settle();
    CHECK(w.a().done.size() == (destroy ? 0 : 1));
  }
}

TEST_CASE("sim death: a killed peer is noticed after its timeout, busy or idle") {
  for (const bool busy : {false, true}) {
    CAPTURE(busy);
    world w;
    queue_pair_options o;
    o.peer_timeout = 800ms;
    link_pair l = join_up(w, o);
    block m(w.a(), 64);
    block n(w.b(), 64);
    recv(*l.server, 1, n.part(0, 64));
    recv(*l.client, 2, m.part(0, 8));
    const time_point start = w.now();
    w.net.kill("b");
    if (busy) {
      send(*l.client, 3, m.part(0, 8));
      send(*l.client, 4, m.part(0, 8));
    }
    REQUIRE(w.until([&] { return !w.a().events.empty(); }));
    CHECK(w.a().events[0].what == event_type::disconnected);
    CHECK(w.a().events[0].why.code() == errc::connection_reset);
    CHECK(w.now() - start >= 790ms);
    CHECK(w.now() - start <= 1000ms);
    w.settle();
    REQUIRE(w.a().done.size() == (busy ? 3 : 1));
    if (busy) CHECK(w.a().done[0].status == wc_status::retry_exc_err);
    CHECK(w.a().done.back().status == wc_status::wr_flush_err);
    // On the killed host everything ended at once, to resume its coroutines.
    CHECK(w.b().done.size() == 1);
    CHECK(w.b().device->listen({"", 1}).code() == errc::shutdown);
    CHECK(w.net.faults().kills == 1);
  }
}

TEST_CASE("sim death: a host comes back fresh, and old connections do not") {
  world w;
  link_pair l = join_up(w);
  w.net.kill("b");
  w.net.revive("b");
  REQUIRE(w.until([&] { return !w.a().events.empty(); }));
  CHECK(w.a().events[0].why.code() == errc::connection_reset);
  party again(w.loop, w.net.make_domain("b"));
  link_pair fresh = join_up(w, w.a(), again, "b");
  CHECK(fresh.client->peer_address().starts_with("b:"));
}

TEST_CASE("sim death: a partition shorter than the timeout is ridden out, a longer one is not") {
  for (const bool shorter : {true, false}) {
    CAPTURE(shorter);
    world w;
    queue_pair_options o;
    o.peer_timeout = 1s;
    link_pair l = join_up(w, o);
    block m(w.a(), 64);
    block n(w.b(), 64);
    recv(*l.server, 1, n.part(0, 64));
    w.net.cut("b", "a");  // one direction is enough
    send(*l.client, 3, m.part(0, 8));
    w.pass(shorter ? 900ms : 1100ms);
    w.net.heal("a", "b");
    w.settle();
    CHECK(w.net.faults().partitioned > 0);
    REQUIRE(w.a().done.size() == 1);
    CHECK((w.a().done[0].status == wc_status::success) == shorter);
    CHECK(w.a().events.empty() == shorter);
    CHECK(w.b().events.empty() == shorter);
  }
}

TEST_CASE("sim stall: a host that stands still for a while only delays") {
  world w;
  link_pair l = join_up(w);
  block m(w.a(), 64);
  block n(w.b(), 64);
  recv(*l.server, 1, n.part(0, 64));
  w.net.stall("b", 0s);  // not a fault
  CHECK(w.net.faults().stalls == 0);
  w.net.stall("b", 2s);
  const time_point start = w.now();
  send(*l.client, 3, m.part(0, 8));
  REQUIRE(w.until([&] { return !w.a().done.empty() && !w.b().done.empty(); }));
  CHECK(w.a().done[0].status == wc_status::success);
  CHECK(w.now() - start >= 2s);
  CHECK(w.net.faults().stalls == 1);
}

TEST_CASE("sim stall: a longer one than the timeout looks like death") {
  world w;
  queue_pair_options o;
  o.peer_timeout = 1s;
  link_pair l = join_up(w, o);
  w.net.stall("b", 3s);
  w.settle();
  CHECK(w.a().events.at(0).why.code() == errc::connection_reset);
  CHECK(w.b().events.at(0).why.code() == errc::connection_reset);
}

TEST_CASE("sim idle: a quiet connection keeps no timer, so a deadlock is seen") {
  world w;
  link_pair l = join_up(w);
  CHECK_FALSE(w.until([] { return false; }));
  CHECK(w.now().time_since_epoch() < 1s);
}

TEST_CASE("sim descriptors: two sides connect by what they are given") {
  for (const service type : {service::rc, service::uc}) {
    world w({.link = {.loss = 0.3}});
    queue_pair_options o;
    o.type = type;
    auto p = w.a().device->create(o).value();
    auto q = w.b().device->create(o).value();
    const std::vector<std::byte> dp = p->descriptor().value();
    const std::vector<std::byte> dq = q->descriptor().value();
    CHECK(p->connect(dq).ok());
    w.pass(1s);
    CHECK(w.a().events.empty());  // the other side has not agreed yet
    CHECK(q->connect(dp).ok());
    REQUIRE(w.until([&] { return !w.a().events.empty() && !w.b().events.empty(); }));
    CHECK(w.a().events[0].what == event_type::established);
    CHECK(w.b().events[0].what == event_type::established);
    CHECK(p->connect(dq).code() == errc::bad_state);
    CHECK(p->descriptor().code() == errc::bad_state);
    w.net.set_links({});
    block m(w.a(), 8);
    block n(w.b(), 8);
    m.fill(1);
    recv(*q, 1, n.part(0, 8));
    send(*p, 2, m.part(0, 8));
    REQUIRE(w.until([&] { return !w.b().done.empty() && !w.a().done.empty(); }));
    CHECK(n.holds(1, 0, 8));
  }
}

TEST_CASE("sim descriptors: damaged, mismatched and stale ones are refused") {
  world w;
  auto p = w.a().device->create({}).value();
  auto q = w.b().device->create({}).value();
  const std::vector<std::byte> good = q->descriptor().value();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    const errc code = p->connect(bad).code();
    CHECK((code == errc::connection_aborted || code == errc::unsupported_version));
    bad = {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i)};
    CHECK(p->connect(bad).code() == errc::connection_aborted);
  }
  queue_pair_options uc;
  uc.type = service::uc;
  auto other = w.b().device->create(uc).value();
  CHECK(p->connect(other->descriptor().value()).code() == errc::connection_aborted);
  q.reset();
  CHECK(p->connect(good).ok());
  REQUIRE(w.until([&] { return !w.a().events.empty(); }));
  CHECK(w.a().events[0].what == event_type::failed);
  CHECK(w.a().events[0].why.code() == errc::connection_aborted);
}

}  // namespace
}  // namespace cordma::sim_test
