// UC and UD on the simulator: lost packets stay lost, and nothing else goes wrong.
#include "sim_support.hpp"

#include <algorithm>

namespace cordma::sim_test {
namespace {

queue_pair_options uc() {
  queue_pair_options o;
  o.type = service::uc;
  o.recv_depth = 1024;
  return o;
}
queue_pair_options ud(std::uint32_t qkey = 11) {
  queue_pair_options o;
  o.type = service::ud;
  o.qkey = qkey;
  return o;
}
void send_to(queue_pair& port, std::uint64_t id, segment s, const datagram_peer& to) {
  send_request r = make(opcode::send, id, {&s, 1});
  r.to = &to;
  post(port, r);
}

TEST_CASE("sim uc: the capabilities say what there is not") {
  world w;
  const capabilities& c = w.a().dom->caps();
  for (const opcode op : {opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush}) {
    CHECK(c.supports(service::rc, op));
    CHECK_FALSE(c.supports(service::uc, op));
    CHECK_FALSE(c.supports(service::ud, op));
  }
  CHECK(c.supports(service::uc, opcode::write_imm));
  CHECK_FALSE(c.supports(service::ud, opcode::write));
  CHECK(c.max_datagram == 1024);
}

TEST_CASE("sim uc: messages vanish whole, arrive whole, and keep their order") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim uc: messages vanish whole*"));
    world w({.seed = seed});
    link_pair l = join_up(w, uc());
    w.net.set_links(
        {.bits_per_second = 1'000'000'000, .loss = 0.05, .duplicate = 0.05, .reorder = 0.05});
    constexpr std::size_t count = 100;
    constexpr std::size_t size = 3500;  // four packets
    block m(w.a(), count * size);
    block n(w.b(), count * size);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < size; ++j) m.bytes[i * size + j] = block::pattern(i, j);
      recv(*l.server, i, n.part(i * size, size));
      send_request r = make(opcode::send_imm, i, {});
      const segment s = m.part(i * size, size);
      r.segments = &s;
      r.segment_count = 1;
      r.imm = static_cast<std::uint32_t>(i);
      post(*l.client, r);
    }
    w.settle();
    REQUIRE(w.a().done.size() == count);  // the sender is not notified
    for (const completion& c : w.a().done) CHECK(c.status == wc_status::success);
    CHECK(w.b().done.size() < count);
    CHECK(w.b().done.size() > count / 4);
    std::int64_t last = -1;
    for (std::size_t i = 0; i < w.b().done.size(); ++i) {
      const completion& c = w.b().done[i];
      CHECK(c.id == i);  // a receive that lost its message serves the next one
      CHECK(c.byte_len == size);
      CHECK(static_cast<std::int64_t>(c.imm) > last);
      last = c.imm;
      CHECK(n.holds(c.imm, i * size, size));
    }
    CHECK(w.net.counters().uc_dropped > 0);
    if (seed == 1) report("uc messages", w.net);
  }
}

TEST_CASE("sim uc: a write with immediate is reported only when all of it is there") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim uc: a write with immediate*"));
    world w({.seed = seed});
    link_pair l = join_up(w, uc());
    w.net.set_links({.loss = 0.1, .reorder = 0.05});
    constexpr std::size_t count = 60;
    constexpr std::size_t size = 3000;
    block m(w.a(), count * size);
    block n(w.b(), count * size);
    block box(w.b(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < size; ++j) m.bytes[i * size + j] = block::pattern(i, j);
      recv(*l.server, i, box.part(0, 0));
      const segment s = m.part(i * size, size);
      send_request r = to_remote(make(opcode::write_imm, i, {&s, 1}), n, i * size);
      r.imm = static_cast<std::uint32_t>(i);
      post(*l.client, r);
    }
    w.settle();
    REQUIRE(w.a().done.size() == count);
    std::size_t torn = 0;
    std::vector<bool> reported(count);
    for (const completion& c : w.b().done) {
      CHECK(c.op == opcode::recv_write_imm);
      CHECK(n.holds(c.imm, c.imm * size, size));
      reported[c.imm] = true;
    }
    for (std::size_t i = 0; i < count; ++i) torn += n.holds(i, i * size, 1024) && !reported[i];
    CHECK(torn > 0);  // partly written, never reported
  }
}

TEST_CASE("sim uc: what the target refuses or cannot take is dropped in silence") {
  world w;
  queue_pair_options closed = uc();
  closed.remote_access = access::local_read;
  link_pair l = join_up(w, closed);
  block m(w.a(), 64);
  block n(w.b(), 64);
  m.fill(1);
  const segment s = m.part(0, 64);
  post(*l.client, to_remote(make(opcode::write, 1, {&s, 1}), n));
  send(*l.client, 2, s);  // no receive
  recv(*l.server, 3, n.part(0, 10));
  w.settle();
  send(*l.client, 4, s);  // too long
  w.settle();
  CHECK(n.zero());
  send(*l.client, 5, m.part(0, 10));
  w.settle();
  CHECK(w.a().done.size() == 4);
  REQUIRE(w.b().done.size() == 1);
  CHECK(w.b().done[0].id == 3);
  CHECK(w.b().done[0].byte_len == 10);
  CHECK(w.net.counters().uc_dropped == 3);
  CHECK(w.a().events.empty());
}

TEST_CASE("sim uc: a send is complete when its last bit has left") {
  world w;
  link_pair l = join_up(w, uc());
  w.net.set_links({.delay = 10ms, .bits_per_second = 8'000'000});  // a byte per microsecond
  block m(w.a(), 10'000);
  const time_point start = w.now();
  send(*l.client, 1, m.part(0, 10'000));
  REQUIRE(w.until([&] { return !w.a().done.empty(); }));
  CHECK(w.now() - start == 10'660us);  // ten headers as well
  l.client->disconnect();
  REQUIRE(w.until([&] { return !w.a().events.empty() && !w.b().events.empty(); }));
  CHECK(w.b().events[0].why.code() == errc::not_connected);
}

TEST_CASE("sim ud: one port talks to many, and each message names its sender") {
  world w({}, 4);
  std::vector<std::unique_ptr<queue_pair>> ports;
  std::vector<std::unique_ptr<block>> memory;
  for (const auto& p : w.parties) {
    ports.push_back(p->device->create(ud()).value());
    memory.push_back(std::make_unique<block>(*p, 4096));
  }
  datagram_peer from[3];
  for (std::size_t i = 0; i < 3; ++i) recv(*ports[0], i, memory[0]->part(i * 8, 8), &from[i]);
  const datagram_peer hub = ports[0]->self().value();
  for (std::size_t i = 1; i < 4; ++i) {
    memory[i]->fill(i);
    send_to(*ports[i], i, memory[i]->part(0, 8), hub);
    REQUIRE(w.until([&] { return w.a().done.size() == i; }));
    CHECK(memory[0]->holds(i, (i - 1) * 8, 8));
    CHECK(from[i - 1].queue_pair == ports[i]->self().value().queue_pair);
    // and back
    recv(*ports[i], 9, memory[i]->part(100, 8));
    send_to(*ports[0], 9, memory[0]->part((i - 1) * 8, 8), from[i - 1]);
    REQUIRE(w.until([&] { return w.parties[i]->done.size() == 2; }));
    CHECK(memory[i]->holds(i, 100, 8));
    w.a().done.resize(i);
  }
}

TEST_CASE("sim ud: too long, wrong key, no receive, receive too small") {
  world w;
  auto p = w.a().device->create(ud()).value();
  auto q = w.b().device->create(ud()).value();
  block m(w.a(), 2000);
  block n(w.b(), 2000);
  datagram_peer to = q->self().value();
  send_to(*p, 1, m.part(0, 1025), to);
  send_to(*p, 2, m.part(0, 1024), to);  // the port is still usable; no receive is posted
  w.settle();
  REQUIRE(w.a().done.size() == 2);
  CHECK(w.a().done[0].status == wc_status::loc_len_err);
  CHECK(w.a().done[1].status == wc_status::success);
  recv(*q, 3, n.part(0, 100));
  to.qkey = 12;
  send_to(*p, 4, m.part(0, 10), to);
  to.qkey = 11;
  send_to(*p, 5, m.part(0, 101), to);
  w.settle();
  CHECK(w.b().done.empty());
  CHECK(w.net.counters().ud_wrong_qkey == 1);
  CHECK(w.net.counters().ud_no_receive == 2);
  send_to(*p, 6, m.part(0, 100), to);
  REQUIRE(w.until([&] { return w.b().done.size() == 1; }));
}

TEST_CASE("sim ud: loss, copies and reordering are seen as what they are") {
  world w(
      {.seed = 3, .link = {.loss = 0.2, .duplicate = 0.2, .reorder = 0.2, .reorder_delay = 1ms}});
  auto p = w.a().device->create(ud()).value();
  auto q = w.b().device->create(ud()).value();
  block m(w.a(), 100);
  block n(w.b(), 200);
  const datagram_peer to = q->self().value();
  for (std::size_t i = 0; i < 128; ++i) recv(*q, i, n.part(i, 1));
  for (std::size_t i = 0; i < 100; ++i) {
    m.bytes[i] = static_cast<std::byte>(i);
    send_to(*p, i, m.part(i, 1), to);
    w.pass(10us);
  }
  w.settle();
  std::vector<int> seen(100);
  bool in_order = true;
  int last = -1;
  for (std::size_t i = 0; i < w.b().done.size(); ++i) {
    const int value = static_cast<int>(n.bytes[i]);
    in_order = in_order && value >= last;
    last = value;
    ++seen[static_cast<std::size_t>(value)];
  }
  CHECK_FALSE(in_order);
  CHECK(std::count(seen.begin(), seen.end(), 0) > 0);
  CHECK(std::count(seen.begin(), seen.end(), 2) > 0);
  CHECK(w.a().done.size() == 100);
}

TEST_CASE("sim ud: a group reaches all that joined, and none that left") {
  world w({}, 4);
  std::vector<std::unique_ptr<queue_pair>> ports;
  std::vector<std::unique_ptr<block>> memory;
  for (const auto& p : w.parties) {
    ports.push_back(p->device->create(ud()).value());
    memory.push_back(std::make_unique<block>(*p, 64));
  }
  const address name{"239.1.2.3", 0};
  memory[0]->fill(5);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(ports[i]->join(name).ok());
    recv(*ports[i], 1, memory[i]->part(0, 8));
    recv(*ports[i], 2, memory[i]->part(8, 8));
  }
  const datagram_peer group = ports[0]->group(name).value();
  send_to(*ports[0], 1, memory[0]->part(0, 8), group);
  w.settle();
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(w.parties[i]->done.size() == 1);
    CHECK(memory[i]->holds(5, 0, 8));
  }
  CHECK(ports[2]->leave(name).ok());
  CHECK(ports[2]->leave(name).code() == errc::not_found);
  ports[3].reset();
  send_to(*ports[0], 2, memory[0]->part(0, 8), group);
  w.settle();
  CHECK(w.parties[1]->done.size() == 2);
  CHECK(w.parties[2]->done.size() == 1);
}

TEST_CASE("sim ud: a port that closes flushes its receives") {
  world w;
  auto p = w.a().device->create(ud()).value();
  block m(w.a(), 8);
  recv(*p, 1, m.part(0, 8));
  p->disconnect();
  REQUIRE(w.until([&] { return w.a().done.size() == 1; }));
  CHECK(w.a().events.at(0).why.code() == errc::not_connected);
  CHECK(w.a().done[0].status == wc_status::wr_flush_err);
}

}  // namespace
}  // namespace cordma::sim_test
