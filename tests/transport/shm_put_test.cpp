// Messages that are put, and messages that are consumed in the ring without a copy.
#include <cstring>
#include <numeric>

#include <support/by_hand.hpp>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

constexpr std::size_t room = 256;       // bytes of a receive
constexpr std::uint64_t most_ids = 64;  // number of receives that exist at once

// Messages from the client to the server, which consumes each in the ring, or leaves it there.
struct lane : couple {
  explicit lane(const shm_options& o = {})
      : couple(o), to(*server.d, most_ids * room, everything, true) {
    server.q->set_in_place(test::by_hand());
  }
  bool put(std::uint64_t number, std::uint32_t bytes = 8) {
    std::vector<std::byte> all(bytes);
    std::iota(reinterpret_cast<unsigned char*>(all.data()),
              reinterpret_cast<unsigned char*>(all.data()) + bytes,
              static_cast<unsigned char>(number));
    return client.q->put({number, ~number}, all.data(), bytes);
  }
  posted recv(std::uint64_t id) { return server.recv(id, to.at(id % most_ids * room, room)); }
  // Polls the server. From `stays_from` on messages stay in the ring.
  void look(std::uint64_t stays_from = UINT64_MAX) {
    completion out[test::most_by_hand];
    bool progressed = false;
    const std::size_t n = server.a->poll(out, progressed);
    while (server.a->has_events()) server.events.push_back(server.a->next_event());
    server.done.insert(server.done.end(), out, out + n);
    bool stays = false;
    for (arrived_message& m : server.a->arrived()) {
      REQUIRE(m.from == server.q.get());
      if (m.data == nullptr) {
        ++asked;
        continue;
      }
      message_head head;
      REQUIRE(m.bytes >= sizeof head);
      std::memcpy(&head, m.data, sizeof head);
      CHECK(head.second == ~head.first);
      m.stays = stays = stays || head.first >= stays_from;
      if (stays) continue;
      for (std::size_t i = sizeof head; i < m.bytes; ++i) {
        REQUIRE(m.data[i] == static_cast<std::byte>(head.first + i - sizeof head));
      }
      came.push_back(head.first);
    }
    if (!server.a->arrived().empty()) server.a->release_arrived();
  }
  template <class Until>
  [[nodiscard]] bool look_until(Until now) {
    for (long i = 0; i < 100'000; ++i) {
      if (now()) return true;
      look();
      client.poll();
    }
    return false;
  }
  // The number of the message in a receive.
  [[nodiscard]] std::uint64_t number_in(std::uint64_t id) const {
    std::uint64_t number = 0;
    std::memcpy(&number, to.data + id % most_ids * room, sizeof number);
    return number;
  }

  memory to;
  std::vector<std::uint64_t> came;
  int asked = 0;
};

bool counts_up(const std::vector<std::uint64_t>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != i) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("shm put: messages of every size are taken where they lie, in order, laps long") {
  shm_options o;
  o.ring_bytes = 4096;
  lane c(o);
  constexpr std::uint64_t all = 3000;
  std::uint64_t sent = 0;
  std::uint64_t refused = 0;
  const bool done = c.look_until([&] {
    while (sent != all) {
      const bool went = c.put(sent, static_cast<std::uint32_t>(sent * 7 % 500));
      if (!went) {
        ++refused;
        break;
      }
      ++sent;
    }
    return c.came.size() == all;
  });
  REQUIRE(done);
  CHECK(counts_up(c.came));
  CHECK(refused != 0);  // the ring was full
  CHECK(c.server.done.empty());
  CHECK(c.client.done.empty());
}

TEST_CASE("shm put: neither longer than the ring takes at once, nor after closing") {
  lane c;
  CHECK_FALSE(c.put(0, 8193 - 16));
  CHECK(c.put(0, 8192 - 16));
  REQUIRE(c.look_until([&] { return c.came.size() == 1; }));
  c.client.q->disconnect();
  CHECK_FALSE(c.put(1));
  REQUIRE(c.look_until([&] { return c.server.saw(cm_event::type::disconnected) != nullptr; }));
  CHECK_FALSE(c.put(1));
}

TEST_CASE("shm put: never ahead of what was posted before") {
  lane c;
  memory long_one(*c.client.d, 1 << 16, everything, true);
  CHECK(c.put(0));
  // The send completes once the receiver has fetched the message.
  REQUIRE(c.client.send(7, long_one.at(0, 1 << 16)) == posted::pending);
  CHECK_FALSE(c.put(1));
  memory into(*c.server.d, 1 << 16, everything, true);
  REQUIRE(c.look_until([&] { return c.asked == 1; }));
  CHECK(c.came == std::vector<std::uint64_t>{0});
  CHECK(c.server.q->in_place() == nullptr);
  c.server.recv(1, into.at(0, 1 << 16));
  REQUIRE(c.look_until([&] { return c.client.find(7) != nullptr && c.server.find(1) != nullptr; }));
  CHECK(c.put(1));
  c.recv(2);
  REQUIRE(c.look_until([&] { return c.server.find(2) != nullptr; }));
  CHECK(c.number_in(2) == 1);
  CHECK(c.server.find(2)->byte_len == 24);
}

TEST_CASE(
    "shm in place: what stays takes a receive, and what is behind it comes where it lies again") {
  lane c;
  for (std::uint64_t n = 0; n < 6; ++n) REQUIRE(c.put(n));
  c.look(2);
  CHECK(c.came == std::vector<std::uint64_t>{0, 1});
  for (int i = 0; i < 10; ++i) c.look();  // no receive is posted
  CHECK(c.came.size() == 2);
  REQUIRE(c.recv(10) == posted::done);
  CHECK(c.number_in(10) == 2);
  REQUIRE(c.look_until([&] { return c.came.size() == 5; }));
  CHECK(c.came == std::vector<std::uint64_t>{0, 1, 3, 4, 5});
}

TEST_CASE(
    "shm in place: a message with an immediate asks for a receive, once, and all behind it take "
    "one") {
  lane c;
  memory from(*c.client.d, 8, everything, true);
  REQUIRE(c.put(0));
  c.client.send(1, from.at(0, 8), opcode::send_imm, 0, 77);
  REQUIRE(c.put(2));
  REQUIRE(c.look_until([&] { return c.asked == 1; }));
  CHECK(c.came == std::vector<std::uint64_t>{0});
  c.recv(20);
  c.recv(21);
  REQUIRE(c.look_until([&] { return c.server.find(21) != nullptr; }));
  CHECK(c.server.find(20)->imm == 77);
  CHECK(c.number_in(21) == 2);
  CHECK(c.asked == 1);
}

TEST_CASE("shm in place: a queue pair that goes takes its records along") {
  lane c;
  for (std::uint64_t n = 0; n < 3; ++n) REQUIRE(c.put(n));
  completion out[test::most_by_hand];
  bool progressed = false;
  CHECK(c.server.a->poll(out, progressed) == 0);
  REQUIRE(c.server.a->arrived().size() == 3);
  c.server.q.reset();
  for (const arrived_message& m : c.server.a->arrived()) CHECK(m.from == nullptr);
  c.server.a->release_arrived();
  CHECK(c.server.a->arrived().empty());
}

TEST_CASE("shm in place: the last words of a peer that closed, or is gone, are taken first") {
  for (const bool closes : {true, false}) {
    CAPTURE(closes);
    lane c;
    for (std::uint64_t n = 0; n < 40; ++n) REQUIRE(c.put(n));
    if (closes) {
      c.client.q->disconnect();
    } else {
      c.client.q.reset();
    }
    const bool ended = [&c, closes] {
      for (long i = 0; i < 100'000; ++i) {
        c.look();
        if (closes) c.client.poll();
        if (c.server.saw(cm_event::type::disconnected) != nullptr) return true;
      }
      return false;
    }();
    REQUIRE(ended);
    CHECK(c.came.size() == 40);
    CHECK(counts_up(c.came));
  }
}

TEST_CASE("shm in place: a connection that floods keeps nobody from its turn") {
  lane c;
  host other(c.options);
  auto made = other.a->connect({"", c.server.l->bound().port}, {}, {});
  REQUIRE(made.ok());
  other.q = std::move(*made);
  std::unique_ptr<queue_pair> flooded = std::move(c.server.q);
  REQUIRE(pump(c.server, other, [&] {
    return other.saw(cm_event::type::established) != nullptr && c.server.q != nullptr;
  }));
  std::swap(flooded, c.server.q);
  flooded->set_in_place(test::by_hand());
  std::size_t from_other = 0;
  std::size_t rounds = 0;
  std::uint64_t sent = 0;
  const std::byte one{1};
  while (from_other < 100 && ++rounds < 1000) {
    while (c.put(sent)) ++sent;
    CHECK(other.q->put({1, 2}, &one, 1));
    completion out[test::most_by_hand];
    bool progressed = false;
    CHECK(c.server.a->poll(out, progressed) == 0);
    CHECK(c.server.a->arrived().size() <= adapter::most_arrived);
    for (const arrived_message& m : c.server.a->arrived())
      from_other += m.from == flooded.get() ? 1U : 0U;
    c.server.a->release_arrived();
  }
  CHECK(from_other == 100);
  CHECK(rounds < 250);
}

TEST_CASE("shm post_now: refused accesses change nothing, and post_send() says why") {
  lane c;
  memory target(*c.server.d, 64, access::local_write | access::remote_read, true);
  memory from(*c.client.d, 64, everything, true);
  const segment s = from.at(0, 8);
  send_request r{.op = opcode::read,
                 .segment_count = 1,
                 .segments = &s,
                 .remote_addr = target.address(),
                 .rkey = target.keys.rkey};
  CHECK_FALSE(c.client.q->post_now(r));  // the key is not known yet
  CHECK(c.client.post(r) == posted::pending);
  REQUIRE(c.look_until([&] { return !c.client.done.empty(); }));
  std::memset(target.data, 5, 64);
  CHECK(c.client.q->post_now(r));
  CHECK(from.data[0] == std::byte{5});
  r.op = opcode::write;
  CHECK_FALSE(c.client.q->post_now(r));  // no right to write
  r.op = opcode::fetch_add;
  CHECK_FALSE(c.client.q->post_now(r));
  CHECK(target.data[0] == std::byte{5});
  r.op = opcode::read;
  r.remote_addr = target.address(60);
  CHECK_FALSE(c.client.q->post_now(r));  // beyond its end
  target.deregister();
  r.remote_addr = target.address();
  CHECK_FALSE(c.client.q->post_now(r));
  CHECK(c.client.saw(cm_event::type::disconnected) == nullptr);
}

TEST_CASE("shm post_now: an atomic brings the old value, without memory of its own") {
  lane c;
  memory target(*c.server.d, 64, everything, true);
  memory from(*c.client.d, 8, everything, true);
  const segment s = from.at(0, 8);
  send_request r{.op = opcode::fetch_add,
                 .segment_count = 1,
                 .segments = &s,
                 .remote_addr = target.address(8),
                 .rkey = target.keys.rkey};
  r.operand = 3;
  CHECK(c.client.post(r) == posted::pending);
  REQUIRE(c.look_until([&] { return !c.client.done.empty(); }));
  r.segment_count = 0;
  r.segments = nullptr;
  REQUIRE(c.client.q->post_now(r));
  CHECK(r.operand == 3);
  r.op = opcode::compare_swap;
  r.operand = 5;
  r.swap = 9;
  REQUIRE(c.client.q->post_now(r));
  CHECK(r.operand == 6);
  r.operand = 6;
  REQUIRE(c.client.q->post_now(r));
  CHECK(r.operand == 6);
  std::uint64_t now = 0;
  std::memcpy(&now, target.data + 8, sizeof now);
  CHECK(now == 9);
  r.remote_addr = target.address(12);
  CHECK_FALSE(c.client.q->post_now(r));  // no multiple of 8
  CHECK(r.operand == 6);
}

}  // namespace cordma::transport::shm_test
