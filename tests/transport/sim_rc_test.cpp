// RC on the simulator: every operation, exact errors, and loss that is hidden from the program.
#include "sim_support.hpp"

#include <cstring>

namespace cordma::sim_test {
namespace {

TEST_CASE("sim: an adapter is not armed while completions or events wait to be polled") {
  world w;
  const link_pair l = join_up(w);
  block ours(w.a(), 8);
  block theirs(w.b(), 8);
  CHECK(w.a().device->arm() == arm_state::armed);
  w.loop.remove(w.a());
  recv(*l.server, 1, theirs.part(0, 8));
  send(*l.client, 2, ours.part(0, 8));
  w.settle();
  CHECK(w.b().done.size() == 1);
  CHECK(w.a().device->arm() == arm_state::busy);
  w.a().poll();
  CHECK(w.a().done.size() == 1);
  CHECK(w.a().device->arm() == arm_state::armed);
}

sim::network_options rough(std::uint64_t seed) {
  return {.seed = seed,
          .link = {.delay = 20us,
                   .jitter = 10us,
                   .bits_per_second = 10'000'000'000,
                   .loss = 0.05,
                   .duplicate = 0.05,
                   .reorder = 0.05}};
}

TEST_CASE("sim rc: a message of any size arrives whole, and both sides learn its length") {
  for (const std::size_t size : {0UL, 1UL, 1023UL, 1024UL, 1025UL, 1UL << 20}) {
    CAPTURE(size);
    world w;
    link_pair l = join_up(w);
    block from(w.a(), size + 1);
    block to(w.b(), size + 1);
    from.fill(size);
    recv(*l.server, 7, to.part(0, size));
    send(*l.client, 8, from.part(0, size));
    CHECK(w.until([&] { return !w.a().done.empty() && !w.b().done.empty(); }));
    CHECK(w.a().done.at(0).id == 8);
    CHECK(w.a().done.at(0).status == wc_status::success);
    CHECK(w.a().done.at(0).op == opcode::send);
    CHECK(w.b().done.at(0).id == 7);
    CHECK(w.b().done.at(0).byte_len == size);
    CHECK(w.b().done.at(0).op == opcode::recv);
    CHECK(to.holds(size, 0, size));
    CHECK(to.bytes[size] == std::byte{0});
  }
}

TEST_CASE("sim rc: lists are gathered and scattered, empty elements and all") {
  world w;
  link_pair l = join_up(w);
  block from(w.a(), 4000);
  block to(w.b(), 4000);
  from.fill(1);
  const std::array<segment, 4> out{from.part(0, 1500), from.part(0, 0), from.part(1500, 1),
                                   from.part(1501, 1499)};
  const std::array<segment, 3> in{to.part(0, 1), to.part(1, 0), to.part(1, 3999)};
  recv_request r;
  r.segments = in.data();
  r.segment_count = 3;
  completion now;
  REQUIRE(l.server->post_recv(r, now) == posted::pending);
  post(*l.client, make(opcode::send, 1, out));
  CHECK(w.until([&] { return !w.b().done.empty(); }));
  CHECK(w.b().done.at(0).byte_len == 3000);
  CHECK(to.holds(1, 0, 3000));
}

TEST_CASE("sim rc: one-sided operations move bytes, immediates and old values") {
  for (const bool faults : {false, true}) {
    CAPTURE(faults);
    world w(faults ? rough(5) : sim::network_options{});
    link_pair l = join_up(w);
    block mine(w.a(), 200'000);
    block theirs(w.b(), 200'000);
    mine.fill(3);
    const segment whole = mine.part(0, 150'000);
    post(*l.client, to_remote(make(opcode::write, 1, {&whole, 1}), theirs, 64));
    CHECK(w.until([&] { return w.a().done.size() == 1; }));
    CHECK(theirs.holds(3, 64, 150'000));

    theirs.fill(4);
    post(*l.client, to_remote(make(opcode::read, 2, {&whole, 1}), theirs));
    CHECK(w.until([&] { return w.a().done.size() == 2; }));
    CHECK(mine.holds(4, 0, 150'000));

    block box(w.b(), 8);
    recv(*l.server, 9, box.part(0, 8));
    send_request imm = to_remote(make(opcode::write_imm, 3, {&whole, 1}), theirs);
    imm.imm = 0x01020304;
    post(*l.client, imm);
    CHECK(w.until([&] { return w.b().done.size() == 1 && w.a().done.size() == 3; }));
    CHECK(w.b().done.at(0).op == opcode::recv_write_imm);
    CHECK(w.b().done.at(0).has_imm);
    CHECK(w.b().done.at(0).imm == 0x01020304);
    CHECK(w.b().done.at(0).byte_len == 150'000);
    CHECK(box.zero());

    std::uint64_t word = 40;
    std::memcpy(theirs.bytes.data(), &word, 8);
    const segment old = mine.part(0, 8);
    send_request add = to_remote(make(opcode::fetch_add, 4, {&old, 1}), theirs);
    add.operand = 2;
    post(*l.client, add);
    CHECK(w.until([&] { return w.a().done.size() == 4; }));
    std::memcpy(&word, mine.bytes.data(), 8);
    CHECK(word == 40);
    send_request swap = to_remote(make(opcode::compare_swap, 5, {&old, 1}), theirs);
    swap.operand = 42;
    swap.swap = 99;
    post(*l.client, swap);
    CHECK(w.until([&] { return w.a().done.size() == 5; }));
    std::memcpy(&word, mine.bytes.data(), 8);
    CHECK(word == 42);
    std::memcpy(&word, theirs.bytes.data(), 8);
    CHECK(word == 99);
    for (const completion& c : w.a().done) CHECK(c.status == wc_status::success);
    if (faults) report("one-sided", w.net);
  }
}

TEST_CASE("sim rc: a counter is added to exactly once, whatever is lost") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim rc: a counter is added to exactly once, whatever is lost"));
    sim::network_options o = rough(seed);
    o.link.loss = 0.2;
    world w(o);
    link_pair l = join_up(w);
    block mine(w.a(), 8 * 64);
    block counter(w.b(), 8);
    for (std::uint64_t i = 0; i < 64; ++i) {
      const segment old = mine.part(i * 8, 8);
      send_request add = to_remote(make(opcode::fetch_add, i, {&old, 1}), counter);
      add.operand = 1;
      post(*l.client, add);
    }
    REQUIRE(w.until([&] { return w.a().done.size() == 64; }));
    for (std::uint64_t i = 0; i < 64; ++i) {
      std::uint64_t old = 0;
      std::memcpy(&old, mine.bytes.data() + i * 8, 8);
      CHECK(old == i);
      CHECK(w.a().done[i].id == i);
    }
    std::uint64_t sum = 0;
    std::memcpy(&sum, counter.bytes.data(), 8);
    CHECK(sum == 64);
    CHECK(w.net.faults().lost > 0);
  }
}

TEST_CASE(
    "sim rc: the next packet reveals a lost one, which is sent again once, before the timer") {
  for (const bool answer : {false, true}) {
    CAPTURE(answer);
    world w({.link = {.delay = 20us}});
    link_pair l = join_up(w);
    block mine(w.a(), 64);
    block theirs(w.b(), 64);
    w.settle();
    const auto read = [&](std::uint64_t i) {
      const segment to = mine.part(i * 8, 8);
      post(*l.client, to_remote(make(opcode::read, i, {&to, 1}), theirs));
    };
    const sim::protocol_counters before = w.net.counters();
    if (!answer) w.net.cut("a", "b");
    read(0);
    w.pass(10us);  // in flight
    if (answer) w.net.cut("b", "a");
    w.pass(15us);
    w.net.heal("a", "b");
    CHECK(w.net.faults().partitioned == 1);
    for (std::uint64_t i = 1; i < 4; ++i) read(i);
    CHECK(w.until([&] { return w.a().done.size() == 4; }));
    for (const completion& c : w.a().done) CHECK(c.status == wc_status::success);
    const sim::protocol_counters& after = w.net.counters();
    CHECK(after.timeouts == before.timeouts);
    CHECK(after.retransmitted - before.retransmitted == 4);
  }
}

TEST_CASE("sim rc: rights are needed on the region and on the connection") {
  for (const opcode op : {opcode::read, opcode::write, opcode::fetch_add}) {
    for (const bool on_region : {false, true}) {
      for (const bool on_connection : {false, true}) {
        CAPTURE(name(op));
        CAPTURE(on_region);
        CAPTURE(on_connection);
        world w;
        const access right = op == opcode::read    ? access::remote_read
                             : op == opcode::write ? access::remote_write
                                                   : access::remote_atomic;
        const auto rest =
            static_cast<access>(static_cast<unsigned>(every_right) & ~static_cast<unsigned>(right));
        queue_pair_options o;
        o.remote_access = on_connection ? every_right : rest;
        link_pair l = join_up(w, o);
        block mine(w.a(), 64);
        block theirs(w.b(), 64, on_region ? every_right : rest);
        mine.fill(1);
        const segment s = mine.part(0, 8);
        send_request r = to_remote(make(op, 1, {&s, 1}), theirs);
        r.operand = 5;
        post(*l.client, r);
        send(*l.client, 2, mine.part(8, 8));
        if (on_region && on_connection) {
          CHECK(w.until([&] { return !w.a().done.empty(); }));
          CHECK(w.a().done.at(0).status == wc_status::success);
          continue;
        }
        CHECK(w.until([&] {
          return w.a().done.size() == 2 && w.a().events.size() == 1 && w.b().events.size() == 1;
        }));
        CHECK(w.a().done.at(0).status == wc_status::rem_access_err);
        CHECK(w.a().done.at(1).status == wc_status::wr_flush_err);
        CHECK(w.a().events[0].what == event_type::disconnected);
        CHECK(w.a().events[0].why.code() == errc::remote_access);
        CHECK(w.b().events[0].what == event_type::disconnected);
        CHECK(theirs.zero());
      }
    }
  }
}

TEST_CASE("sim rc: a key of another region, a range one byte too long, a region that is gone") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    world w;
    link_pair l = join_up(w);
    block mine(w.a(), 64);
    auto theirs = std::make_unique<block>(w.b(), 64);
    const segment s = mine.part(0, 64);
    send_request r = to_remote(make(opcode::write, 1, {&s, 1}), *theirs);
    if (how == 0) r.rkey ^= 1ULL << 40;
    if (how == 1) r.remote_addr += 1;
    if (how == 2) theirs.reset();
    post(*l.client, r);
    CHECK(w.until([&] { return !w.a().done.empty(); }));
    CHECK(w.a().done.at(0).status == wc_status::rem_access_err);
  }
}

TEST_CASE("sim rc: a misaligned atomic is an invalid request and changes nothing") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 64);
  block theirs(w.b(), 64);
  const segment s = mine.part(0, 8);
  post(*l.client, to_remote(make(opcode::fetch_add, 1, {&s, 1}), theirs, 4));
  CHECK(w.until([&] { return !w.a().done.empty(); }));
  CHECK(w.a().done.at(0).status == wc_status::rem_inv_req_err);
  CHECK(theirs.zero());
}

TEST_CASE("sim rc: a message longer than the receive fails on both sides") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 5000);
  block theirs(w.b(), 5000);
  recv(*l.server, 1, theirs.part(0, 2000));
  recv(*l.server, 2, theirs.part(2000, 2000));
  send(*l.client, 3, mine.part(0, 3000));
  send(*l.client, 4, mine.part(0, 10));
  CHECK(w.until([&] { return w.a().done.size() == 2 && w.b().done.size() == 2; }));
  CHECK(w.b().done.at(0).status == wc_status::loc_len_err);
  CHECK(w.b().done.at(1).status == wc_status::wr_flush_err);
  CHECK(w.a().done.at(0).status == wc_status::rem_inv_req_err);
  CHECK(w.a().done.at(1).status == wc_status::wr_flush_err);
}

TEST_CASE("sim rc: memory that is not registered fails here, after what was posted before it") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 64);
  block theirs(w.b(), 64);
  recv(*l.server, 9, theirs.part(0, 64));
  send(*l.client, 1, mine.part(0, 8));
  send(*l.client, 2, {mine.bytes.data(), 8, 4711});
  send(*l.client, 3, mine.part(0, 8));
  CHECK(w.until([&] { return w.a().done.size() == 3 && w.b().done.size() == 1; }));
  CHECK(w.a().done.at(0).status == wc_status::success);
  CHECK(w.a().done.at(1).status == wc_status::loc_prot_err);
  CHECK(w.a().done.at(2).status == wc_status::wr_flush_err);
}

TEST_CASE("sim rc: a receive that may not be written is the target's fault") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 64);
  block theirs(w.b(), 64, access::local_read);
  recv(*l.server, 9, theirs.part(0, 64));
  send(*l.client, 1, mine.part(0, 8));
  CHECK(w.until([&] { return w.a().done.size() == 1 && w.b().done.size() == 1; }));
  CHECK(w.a().done.at(0).status == wc_status::rem_op_err);
  CHECK(w.b().done.at(0).status == wc_status::loc_prot_err);
}

TEST_CASE("sim rc: a message waits for its receive, as often as was agreed") {
  world w;
  queue_pair_options few;
  few.rnr_retry = 3;
  link_pair l = join_up(w, few);
  block mine(w.a(), 64);
  block theirs(w.b(), 64);
  const time_point start = w.now();
  send(*l.client, 1, mine.part(0, 8));
  CHECK(w.until([&] { return w.a().done.size() == 1; }));
  CHECK(w.a().done.at(0).status == wc_status::rnr_retry_exc_err);
  CHECK(w.now() - start > 3ms);
  CHECK(w.now() - start < 4ms);
  CHECK(w.net.counters().rnr_naks == 4);

  w.settle();
  link_pair patient = join_up(w);
  send(*patient.client, 2, mine.part(0, 8));
  w.pass(500ms);
  CHECK(w.a().done.size() == 1);
  recv(*patient.server, 3, theirs.part(0, 8));
  CHECK(w.until([&] { return w.a().done.size() == 2; }));
  CHECK(w.a().done.at(1).status == wc_status::success);
}

TEST_CASE("sim rc: a write with immediate waits for a receive, and its bytes may come before") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 3000);
  block theirs(w.b(), 3000);
  block box(w.b(), 1);
  mine.fill(1);
  const segment s = mine.part(0, 3000);
  post(*l.client, to_remote(make(opcode::write_imm, 1, {&s, 1}), theirs));
  w.pass(10ms);
  CHECK(theirs.holds(1, 0, 2048));
  CHECK(w.a().done.empty());
  recv(*l.server, 2, box.part(0, 1));
  CHECK(w.until([&] { return !w.a().done.empty(); }));
  CHECK(theirs.holds(1, 0, 3000));
}

TEST_CASE("sim rc: more reads than agreed wait inside") {
  world w;
  queue_pair_options two;
  two.read_depth = 2;
  link_pair l = join_up(w, two);
  CHECK(l.client->actual().read_depth == 2);
  block mine(w.a(), 64 * 1024);
  block theirs(w.b(), 1024);
  theirs.fill(6);
  for (std::uint64_t i = 0; i < 64; ++i) {
    const segment s = mine.part(i * 1024, 1024);
    post(*l.client, to_remote(make(opcode::read, i, {&s, 1}), theirs));
  }
  const segment s = mine.part(0, 0);
  const segment change = mine.part(64 * 1024 - 8, 8);
  send_request flush = make(opcode::flush, 64, {&s, 0});
  post(*l.client, flush);
  send_request write = to_remote(make(opcode::write, 65, {&change, 1}), theirs);
  write.flags = post_flag::fence;
  post(*l.client, write);
  CHECK(w.until([&] { return w.a().done.size() == 66; }));
  for (std::size_t i = 0; i < 64; ++i) CHECK(mine.holds(6, i * 1024, 1024));
  for (std::size_t i = 0; i < 66; ++i) CHECK(w.a().done[i].id == i);
}

TEST_CASE(
    "sim rc: a read is done again when its answer is lost; only a fence keeps writes behind it") {
  for (const bool fence : {false, true}) {
    CAPTURE(fence);
    world w;
    link_pair l = join_up(w);
    block mine(w.a(), 16);
    block theirs(w.b(), 8);
    theirs.fill(1);
    mine.fill(2);
    const segment into = mine.part(8, 8);
    const segment change = mine.part(0, 8);
    w.net.cut("b", "a");
    post(*l.client, to_remote(make(opcode::read, 1, {&into, 1}), theirs));
    send_request write = to_remote(make(opcode::write, 2, {&change, 1}), theirs);
    if (fence) write.flags = post_flag::fence;
    post(*l.client, write);
    w.pass(10ms);
    CHECK(theirs.holds(fence ? 1 : 2, 0, 8));
    w.net.heal("a", "b");
    REQUIRE(w.until([&] { return w.a().done.size() == 2; }));
    CHECK(w.a().done[0].id == 1);
    CHECK(mine.holds(fence ? 1 : 2, 8, 8));
    CHECK(theirs.holds(2, 0, 8));
  }
}

TEST_CASE("sim rc: inline data is copied when posted, other data when sent") {
  world w;
  link_pair l = join_up(w);
  block mine(w.a(), 64);
  block theirs(w.b(), 64);
  mine.fill(1);
  recv(*l.server, 1, theirs.part(0, 64));
  const segment s{mine.bytes.data(), 16, 0};
  send_request r = make(opcode::send, 2, {&s, 1});
  r.flags = post_flag::inline_data;
  post(*l.client, r);
  mine.fill(2);
  CHECK(w.until([&] { return !w.b().done.empty(); }));
  CHECK(theirs.holds(1, 0, 16));
}

TEST_CASE("sim rc: flush comes back after everything before it took effect") {
  world w(rough(8));
  link_pair l = join_up(w);
  block mine(w.a(), 100 * 4096);
  block theirs(w.b(), 100 * 4096);
  mine.fill(7);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const segment s = mine.part(i * 4096, 4096);
    post(*l.client, to_remote(make(opcode::write, i, {&s, 1}), theirs, i * 4096));
  }
  post(*l.client, make(opcode::flush, 100, {}));
  CHECK(w.until([&] { return !w.a().done.empty() && w.a().done.back().id == 100; }));
  CHECK(theirs.holds(7, 0, 100 * 4096));
  report("flush", w.net);
}

}  // namespace
}  // namespace cordma::sim_test
