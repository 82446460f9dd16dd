// Messages on the simulator that are put, and that are delivered without a copy: order, refusal,
// loss and ends.
#include "sim_support.hpp"

#include <support/by_hand.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace cordma::sim_test {
namespace {

constexpr std::size_t receive_bytes = 6000;
constexpr std::size_t receives = 8;
constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

// From `a` to `b`, where messages are delivered without a copy and the others use shared receives.
struct lane {
  explicit lane(const sim::network_options& o = {}, const queue_pair_options& sending = {})
      : w(o),
        queue(w.b().device->make_receive_queue(receives, 1).value()),
        room(w.b(), receives * receive_bytes),
        source(w.a(), receive_bytes),
        link(join(sending)),
        out(*link.client) {
    w.b().takes = all;
  }
  [[nodiscard]] link_pair join(const queue_pair_options& sending = {}) {
    queue_pair_options receiving;
    receiving.shared = queue.get();
    link_pair made = join_up(w, w.a(), w.b(), "b", sending, receiving);
    made.server->set_in_place(test::by_hand());
    return made;
  }
  // Posts receives with the ids 0 ... n - 1.
  void post_receives(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const segment s = room.part(i * receive_bytes, receive_bytes);
      queue->post_recv({.id = i, .segment_count = 1, .segments = &s});
    }
  }
  // The number of the message in the i-th receive.
  [[nodiscard]] std::uint64_t received(std::size_t i) const {
    std::uint64_t number = 0;
    std::memcpy(&number, room.bytes.data() + i * receive_bytes, sizeof number);
    return number;
  }
  [[nodiscard]] std::vector<std::uint64_t> came() {
    std::vector<std::uint64_t> numbers;
    for (const party::message& m : w.b().came) {
      REQUIRE(m.bytes.size() >= sizeof(message_head));
      message_head head;
      std::memcpy(&head, m.bytes.data(), sizeof head);
      CHECK(head.second == ~head.first);
      for (std::size_t i = sizeof head; i < m.bytes.size(); ++i) {
        REQUIRE(m.bytes[i] == block::pattern(head.first, i));
      }
      numbers.push_back(head.first);
    }
    return numbers;
  }

  world w;
  std::unique_ptr<receive_queue> queue;
  block room;
  block source;
  link_pair link;
  queue_pair& out;
};

[[nodiscard]] bool put(queue_pair& q, std::uint64_t number, std::uint32_t bytes = 8) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = block::pattern(number, sizeof(message_head) + i);
  }
  return q.put({number, ~number}, data.data(), bytes);
}

// Sends the same message, with a completion.
void say(queue_pair& q, std::uint64_t number, opcode op = opcode::send) {
  message_head head{number, ~number};
  const segment s{reinterpret_cast<std::byte*>(&head), sizeof head, 0};
  send_request r = make(op, number, {&s, 1});
  r.flags = post_flag::inline_data;
  post(q, r);
}

std::vector<std::uint64_t> numbers_below(std::uint64_t n) {
  std::vector<std::uint64_t> numbers(n);
  for (std::uint64_t i = 0; i < n; ++i) numbers[i] = i;
  return numbers;
}

TEST_CASE("sim put: puts and posts arrive in their order, whatever is lost; no put completes") {
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim put: puts and posts arrive*"));
    lane t(
        {.seed = seed,
         .link = {.delay = 20us, .jitter = 10us, .loss = 0.1, .duplicate = 0.1, .reorder = 0.1}});
    for (std::uint64_t i = 0; i < 60; i += 2) {
      REQUIRE(put(t.out, i, static_cast<std::uint32_t>(i * 60)));  // of one to four packets
      say(t.out, i + 1);
    }
    REQUIRE(t.w.until([&] { return t.w.b().came.size() == 60 && t.w.a().done.size() == 30; }));
    t.w.settle();
    CHECK(t.came() == numbers_below(60));
    CHECK(t.w.b().done.empty());
    REQUIRE(t.w.a().done.size() == 30);
    for (std::size_t i = 0; i < 30; ++i) {
      CHECK(t.w.a().done[i].id == 2 * i + 1);
      CHECK(t.w.a().done[i].status == wc_status::success);
    }
    CHECK(t.w.a().events.empty());
  }
}

TEST_CASE("sim put: a message that needs a receive comes in its turn") {
  lane t;
  t.post_receives(2);
  REQUIRE(put(t.out, 0));
  say(t.out, 1, opcode::send_imm);
  REQUIRE(put(t.out, 2));
  send(t.out, 3, t.source.part(0, 5000));  // longer than any message delivered without a copy
  REQUIRE(put(t.out, 4));
  const std::uint64_t timeouts = t.w.net.counters().timeouts;
  REQUIRE(t.w.until([&] { return t.w.b().came.size() == 3 && t.w.b().done.size() == 2; }));
  CHECK(t.came() == std::vector<std::uint64_t>{0, 2, 4});
  for (std::size_t i = 0; i < 3; ++i) CHECK(t.w.b().came[i].done_before == i);
  CHECK(t.w.b().done[0].has_imm);
  CHECK(t.w.b().done[1].byte_len == 5000);
  CHECK(t.w.net.counters().timeouts == timeouts);
}

TEST_CASE("sim put: what is answered waits until the messages before it are looked at") {
  lane t;
  block target(t.w.b(), 8);
  target.fill(1);
  t.w.loop.remove(t.w.b());
  REQUIRE(put(t.out, 0));
  const segment into = t.source.part(0, 8);
  post(t.out, to_remote(make(opcode::read, 1, {&into, 1}), target));
  t.w.pass(1ms);
  CHECK(t.w.a().done.empty());
  t.w.b().poll();
  CHECK(t.came() == numbers_below(1));
  const std::uint64_t timeouts = t.w.net.counters().timeouts;
  REQUIRE(t.w.until([&] { return !t.w.a().done.empty(); }));
  CHECK(t.w.a().done[0].status == wc_status::success);
  CHECK(t.source.holds(1, 0, 8));
  CHECK(t.w.net.counters().timeouts == timeouts);
}

TEST_CASE("sim put: a put is refused where chance says so, and a post is not") {
  lane t({.refused_puts = 1});
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(!put(t.out, i));
  say(t.out, 0);
  REQUIRE(t.w.until([&] { return !t.w.a().done.empty(); }));
  t.w.settle();
  CHECK(t.came() == numbers_below(1));
  CHECK(t.w.net.faults().refused_puts == 5);
}

TEST_CASE("sim put: a full queue refuses puts alone, and they find room when it drains") {
  lane t;
  t.w.net.cut("a", "b");
  std::uint64_t n = 0;
  while (put(t.out, n)) REQUIRE(++n < 1000);
  CHECK(n == 32);
  const std::uint32_t depth = t.out.actual().send_depth;
  for (std::uint64_t i = 0; i < depth; ++i) say(t.out, n + i);
  CHECK(!put(t.out, n));
  t.w.pass(1ms);
  t.w.net.heal("a", "b");
  REQUIRE(t.w.until([&] { return t.w.a().done.size() == depth; }));
  CHECK(t.came() == numbers_below(n + depth));
  CHECK(put(t.out, n + depth));
  CHECK(t.w.net.faults().refused_puts == 0);
  t.w.settle();
}

TEST_CASE("sim put: refused where it is too long, not connected, or not reliable") {
  lane t;
  constexpr std::uint32_t most = 4096 - sizeof(message_head);
  CHECK(!put(t.out, 0, most + 1));
  REQUIRE(put(t.out, 0, most));
  REQUIRE(put(t.out, 1, 0));
  REQUIRE(t.w.until([&] { return t.w.b().came.size() == 2; }));
  CHECK(t.came() == numbers_below(2));
  t.out.disconnect();
  CHECK(!put(t.out, 2));
  t.w.settle();
  CHECK(!put(t.out, 2));

  world w;
  const link_pair l = join_up(w, {.type = service::uc});
  CHECK(!put(*l.client, 0));
  CHECK(!put(*w.a().device->create({}).value(), 0));
}

TEST_CASE("sim put: a peer that dies ends the connection; nothing completes but what was posted") {
  lane t({}, {.peer_timeout = 20ms});
  t.w.net.kill("b");
  REQUIRE(put(t.out, 0));
  say(t.out, 1);
  REQUIRE(put(t.out, 2));
  REQUIRE(t.w.until([&] { return !t.w.a().events.empty(); }));
  CHECK(t.w.a().events[0].what == event_type::disconnected);
  CHECK(t.w.a().events[0].why.wc_status() == static_cast<std::uint16_t>(wc_status::retry_exc_err));
  CHECK(!put(t.out, 3));
  say(t.out, 4);
  t.w.settle();
  REQUIRE(t.w.a().done.size() == 2);
  CHECK(t.w.a().done[0].id == 1);
  CHECK(t.w.a().done[0].status == wc_status::wr_flush_err);
  CHECK(t.w.a().done[1].id == 4);
  CHECK(t.w.a().done[1].status == wc_status::wr_flush_err);
  CHECK(t.w.b().came.empty());
}

TEST_CASE("sim put: a put that is made to fail ends the connection as a post does") {
  lane t;
  t.w.net.fail_request("a", 2, wc_status::general_err);
  REQUIRE(put(t.out, 0));
  REQUIRE(put(t.out, 1));
  say(t.out, 2);
  REQUIRE(t.w.until([&] { return !t.w.a().events.empty(); }));
  CHECK(t.w.a().events[0].why.wc_status() == static_cast<std::uint16_t>(wc_status::general_err));
  t.w.settle();
  REQUIRE(t.w.a().done.size() == 1);
  CHECK(t.w.a().done[0].status == wc_status::wr_flush_err);
  CHECK(t.came() == numbers_below(1));
  CHECK(t.w.net.faults().failed_requests == 1);
}

TEST_CASE("sim in place: what stays takes receives, in its order, and what comes later does not") {
  lane t;
  t.post_receives(receives);
  t.w.b().takes = 1;
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE(put(t.out, i));
  REQUIRE(t.w.until([&] { return t.w.b().done.size() == 4; }));
  CHECK(t.came() == numbers_below(1));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(t.w.b().done[i].id == i);
    CHECK(t.w.b().done[i].status == wc_status::success);
    CHECK(t.w.b().done[i].byte_len == sizeof(message_head) + 8);
    CHECK(t.w.b().done[i].from == t.link.server.get());
    CHECK(t.received(i) == i + 1);
  }
  t.w.b().takes = all;
  t.w.b().came.clear();
  REQUIRE(put(t.out, 0));
  t.w.settle();
  CHECK(t.came() == numbers_below(1));
  CHECK(t.w.b().done.size() == 4);
}

TEST_CASE("sim in place: what stays is offered again until a receive is there, or is given up") {
  lane t;
  t.w.b().takes = 0;
  REQUIRE(put(t.out, 0));
  say(t.out, 1);
  t.w.pass(10ms);
  CHECK(t.w.a().done.empty());
  CHECK(t.w.net.counters().rnr_naks > 1);
  t.post_receives(2);
  REQUIRE(t.w.until([&] { return !t.w.a().done.empty(); }));
  t.w.settle();
  CHECK(t.w.a().done[0].status == wc_status::success);
  REQUIRE(t.w.b().done.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(t.received(i) == i);
  CHECK(t.w.b().came.empty());

  lane impatient({}, {.rnr_retry = 2, .rnr_timer = 1ms});
  impatient.w.b().takes = 0;
  REQUIRE(put(impatient.out, 0));
  REQUIRE(impatient.w.until([&] { return !impatient.w.a().events.empty(); }));
  CHECK(impatient.w.a().events[0].why.wc_status() ==
        static_cast<std::uint16_t>(wc_status::rnr_retry_exc_err));
  impatient.w.settle();
  CHECK(impatient.w.a().done.empty());
  CHECK(impatient.w.b().done.empty());
}

TEST_CASE("sim in place: a message comes once, however often it is sent [taken, stays]") {
  for (const bool stays : {false, true}) {
    CAPTURE(stays);
    lane t;
    t.post_receives(receives);
    t.w.b().takes = stays ? 0 : all;
    t.w.net.cut("b", "a");
    REQUIRE(put(t.out, 0));
    t.w.pass(100ms);
    CHECK(t.w.net.counters().timeouts > 0);
    CHECK(t.w.net.counters().duplicates > 0);
    t.w.net.heal("a", "b");
    say(t.out, 1);
    REQUIRE(t.w.until([&] { return !t.w.a().done.empty(); }));
    t.w.settle();
    CHECK(t.w.a().events.empty());
    CHECK(t.w.b().came.size() == (stays ? 0 : 2));
    CHECK(t.w.b().done.size() == (stays ? 2 : 0));
    if (!stays) CHECK(t.came() == numbers_below(2));
    if (stays) CHECK((t.received(0) == 0 && t.received(1) == 1));
  }
}

TEST_CASE("sim in place: some taken, some that stay, under loss: each once and in order") {
  for (const std::uint64_t seed : seeds(50)) {
    INFO(replay(seed, "sim in place: some taken*"));
    lane t({.seed = seed,
            .link = {.delay = 20us, .jitter = 10us, .loss = 0.1, .duplicate = 0.1, .reorder = 0.1}},
           {.rnr_timer = 100us});
    t.post_receives(receives);
    t.w.b().takes = seed % 20;
    for (std::uint64_t i = 0; i < 20; ++i) {
      REQUIRE(put(t.out, i, static_cast<std::uint32_t>(i * 100)));
    }
    // There are fewer receives than messages that stay: the rest is consumed without a copy again.
    REQUIRE(t.w.until([&] { return t.w.b().done.size() + t.w.b().came.size() >= 8; }));
    t.w.b().takes = all;
    const auto done = [&] { return t.w.b().done.size(); };
    const std::size_t ids = receives;
    std::size_t more = 0;
    REQUIRE(t.w.until([&] {
      for (; more < done(); ++more) {
        const segment s = t.room.part((more % ids) * receive_bytes, receive_bytes);
        t.queue->post_recv({.id = more % ids, .segment_count = 1, .segments = &s});
      }
      return done() + t.w.b().came.size() == 20;
    }));
    t.w.settle();
    CHECK(done() + t.w.b().came.size() == 20);
    const std::vector<std::uint64_t> in_place = t.came();
    CHECK(std::is_sorted(in_place.begin(), in_place.end()));
    CHECK(std::adjacent_find(in_place.begin(), in_place.end()) == in_place.end());
    for (std::size_t i = 0; i < in_place.size(); ++i) {
      CHECK(in_place[i] == i + t.w.b().came[i].done_before);
    }
    CHECK(t.w.a().events.empty());
  }
}

TEST_CASE("sim in place: those of one sender stand together; one that is gone left none") {
  lane t;
  link_pair other = t.join();
  t.w.loop.remove(t.w.b());
  REQUIRE(put(t.out, 0));
  REQUIRE(put(*other.client, 0));
  REQUIRE(put(t.out, 1));
  t.w.pass(1ms);
  adapter& device = *t.w.b().device;
  CHECK(device.arm() == arm_state::busy);
  std::array<completion, 16> out;
  bool progressed = false;
  CHECK(device.poll(out, progressed) == 0);
  REQUIRE(device.arrived().size() == 3);
  CHECK(device.arrived()[0].from == t.link.server.get());
  CHECK(device.arrived()[1].from == t.link.server.get());
  CHECK(device.arrived()[2].from == other.server.get());
  t.link.server.reset();
  CHECK(device.arrived()[0].from == nullptr);
  CHECK(device.arrived()[1].from == nullptr);
  device.release_arrived();
  CHECK(device.arrived().empty());
  CHECK(device.arm() == arm_state::armed);
}

TEST_CASE("sim in place: one poll hands out no more than there is room for") {
  lane t;
  t.w.loop.remove(t.w.b());
  for (std::uint64_t i = 0; i < 10; ++i) REQUIRE(put(t.out, i));
  t.w.pass(1ms);
  std::array<completion, 4> out;
  std::size_t n = 0;
  for (const std::size_t most : {4U, 4U, 2U, 0U}) {
    bool progressed = false;
    CHECK(t.w.b().device->poll(out, progressed) == 0);
    CHECK(t.w.b().device->arrived().size() == most);
    for (const arrived_message& m : t.w.b().device->arrived()) {
      std::uint64_t number = 0;
      std::memcpy(&number, m.data, sizeof number);
      CHECK(number == n++);
    }
    if (most != 0) t.w.b().device->release_arrived();
  }
  CHECK(n == 10);
}

TEST_CASE("sim in place: a queue pair goes while its messages lie here, and comes to no harm") {
  for (const std::uint64_t seed : seeds(50)) {
    INFO(replay(seed, "sim in place: a queue pair goes*"));
    lane t({.seed = seed, .link = {.jitter = 10us, .loss = 0.1, .duplicate = 0.1}});
    t.w.b().takes = seed % 4;
    for (std::uint64_t i = 0; i < 30; ++i) {
      REQUIRE(put(t.out, i, static_cast<std::uint32_t>(i * 100)));
    }
    t.w.pass(duration(static_cast<std::int64_t>(seed) * 1000));
    if (seed % 3 == 0) t.link.server.reset();
    if (seed % 3 == 1) t.link.client.reset();
    if (seed % 3 == 2) t.link.server->abort();
    t.w.settle();
    CHECK(t.came().size() <= seed % 4);
  }
}

}  // namespace
}  // namespace cordma::sim_test
