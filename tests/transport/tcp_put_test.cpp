// Messages that are put, and messages delivered without a copy: in order, exactly once, whichever
// of them have to wait.
#include <cordma/net/transport/tcp/frame.hpp>

#include <algorithm>

#include <support/by_hand.hpp>

#include "tcp_support.hpp"

using namespace tcp_test;

namespace {

constexpr std::size_t receives = 4;
constexpr std::size_t room = 9000;  // bytes of each
constexpr std::size_t most_body = tp::tcp::most_put - sizeof(tp::message_head);
static_assert(tp::tcp::most_put <= room);

std::vector<std::byte> body_of(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + number);
  return all;
}

// A received message, and the way in which it was delivered.
struct got {
  std::uint64_t number;
  bool in_place;
};

// One end: a queue of receives, and the received messages.
struct end {
  end(rig& r, side& s)
      : at(s),
        rooms(*r.domain, receives * room),
        queue(s.adapter->make_receive_queue(receives, 1).value()) {}

  [[nodiscard]] tp::queue_pair_options options() const {
    tp::queue_pair_options o;
    o.shared = queue.get();
    return o;
  }
  void post_receive() {
    const std::uint64_t id = posted++ % receives;
    const tp::segment s = rooms.slice(id * room, room);
    queue->post_recv({.id = id, .segment_count = 1, .segments = &s});
  }
  void take(const std::byte* message, std::size_t bytes, bool in_place) {
    tp::message_head head;
    REQUIRE(bytes >= sizeof head);
    std::memcpy(&head, message, sizeof head);
    const std::vector<std::byte> body(message + sizeof head, message + bytes);
    CHECK(head.second == body.size());
    CHECK(body == body_of(head.first, body.size()));
    all.push_back({head.first, in_place});
  }
  // Completions are polled before messages delivered without a copy.
  void poll() {
    std::array<tp::completion, 16> out;
    bool progressed = false;
    const std::size_t n = at.adapter->poll(std::span(out).first(most), progressed);
    CHECK(n + at.adapter->arrived().size() <= most);
    while (at.adapter->has_events()) events.push_back(at.adapter->next_event());
    for (std::size_t i = 0; i < n; ++i) {
      const tp::completion& c = out[i];
      if (c.op == opcode::recv && c.status == wc_status::success) {
        take(rooms.bytes.data() + c.id * room, c.byte_len, false);
      } else {
        done.push_back(c);
      }
    }
    bool stays = false;
    for (tp::arrived_message& m : at.adapter->arrived()) {
      std::uint64_t number = 0;
      std::memcpy(&number, m.data, sizeof number);
      stays = stays || number == stays_from;
      m.stays = stays;
      if (!stays) take(m.data, m.bytes, true);
    }
    if (stays) stays_from = UINT64_MAX;
    if (!at.adapter->arrived().empty()) at.adapter->release_arrived();
  }

  side& at;
  memory rooms;
  std::unique_ptr<tp::receive_queue> queue;
  std::uint64_t posted = 0;
  std::size_t most = 16;                  // completions per poll
  std::uint64_t stays_from = UINT64_MAX;  // once: this message and all later ones stay
  std::vector<got> all;
  std::vector<tp::completion> done;
  std::deque<tp::cm_event> events;
};

// Messages from l to r, over `pairs` connections.
struct conversation : rig {
  explicit conversation(std::size_t pairs = 1,
                        const cordma::reactor_options& o = {.mode = cordma::wait_mode::polling})
      : rig(o),
        l(*this, a),
        r(*this, b),
        listener(b.adapter->listen({.host = "127.0.0.1", .port = 0}).value()) {
    for (std::size_t i = 0; i < pairs; ++i) {
      left.push_back(a.adapter->connect(listener->bound(), l.options(), {}).value());
      const tp::cm_event request = event(b);
      REQUIRE(request.what == tp::cm_event::type::connect_request);
      right.push_back(b.adapter->accept(request.request, r.options(), {}).value());
      left.back()->set_in_place(cordma::test::by_hand());
      right.back()->set_in_place(cordma::test::by_hand());
      REQUIRE(event(a).what == tp::cm_event::type::established);
      REQUIRE(event(b).what == tp::cm_event::type::established);
    }
    settle(200);  // so that connections found by epoll are checked often
  }
  template <class Done>
  void until(Done now) {
    for (int i = 0; i < most_polls; ++i) {
      l.poll();
      r.poll();
      home.turn();
      if (now()) return;
    }
    FAIL("nothing happens any more");
  }
  void settle(int polls = 2000) {
    until([&polls] { return --polls == 0; });
  }
  [[nodiscard]] bool put(std::uint64_t number, std::size_t bytes, std::size_t pair = 0) {
    const std::vector<std::byte> body = body_of(number, bytes);
    return left[pair]->put({number, bytes}, body.data(), static_cast<std::uint32_t>(bytes));
  }
  // Sends the same message by a request; the buffer lives as long as the test.
  void send(std::uint64_t number, std::size_t bytes) {
    memory& m = buffers.emplace_back(*domain, sizeof(tp::message_head) + bytes);
    const tp::message_head head{number, bytes};
    std::memcpy(m.bytes.data(), &head, sizeof head);
    const std::vector<std::byte> body = body_of(number, bytes);
    std::copy(body.begin(), body.end(), m.bytes.begin() + sizeof head);
    const tp::segment s = m.all();
    post(*left[0], request(opcode::send, number, s));
  }
  // Waits until the put messages have arrived at r, which does not poll.
  void arrive() {
    for (int i = 0; i < 1000; ++i) l.poll();
  }
  // Puts messages until one is refused; r does not poll. Returns the number accepted.
  std::uint64_t fill(std::size_t bytes) {
    std::uint64_t n = 0;
    while (put(n, bytes)) REQUIRE(++n < 1'000'000);
    return n;
  }
  void expect_in_order(std::uint64_t count) {
    until([&] { return r.all.size() >= count; });
    settle(50);
    REQUIRE(r.all.size() == count);
    for (std::uint64_t i = 0; i < count; ++i) REQUIRE(r.all[i].number == i);
  }

  end l;
  end r;
  std::deque<memory> buffers;
  std::unique_ptr<tp::listener> listener;
  std::vector<std::unique_ptr<tp::queue_pair>> left;
  std::vector<std::unique_ptr<tp::queue_pair>> right;
};

}  // namespace

TEST_CASE("tcp: a message that is put is handed out where it lies, and takes no receive [bytes]") {
  conversation c;
  std::uint64_t number = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8}, most_body}) {
    CAPTURE(bytes);
    REQUIRE(c.put(number++, bytes));
    c.until([&] { return c.r.all.size() == number; });
    CHECK(c.r.all.back().in_place);
  }
  CHECK(!c.put(number, most_body + 1));
  c.expect_in_order(number);
  CHECK(c.l.done.empty());
  CHECK(c.r.done.empty());
}

TEST_CASE("tcp: only a peer that shares its receives is put a message") {
  connected c;
  CHECK(!c.left->put({1, 0}, nullptr, 0));
  c.settle(50);
  CHECK(c.b.done.empty());
}

TEST_CASE(
    "tcp: what a full socket took a part of waits, and arrives whole before all else [bytes]") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{4999}, most_body}) {
    CAPTURE(bytes);
    conversation c;
    const std::uint64_t taken = c.fill(bytes);
    CHECK(!c.put(taken, bytes));  // refused again without an effect
    c.send(taken, bytes);
    CHECK(!c.put(taken + 1, 0));  // never ahead of posted messages
    c.expect_in_order(taken + 1);
    c.until([&] { return c.l.done.size() == 1; });
    CHECK(c.l.done[0].status == wc_status::success);
    REQUIRE(c.put(taken + 1, 0));
    c.expect_in_order(taken + 2);
  }
}

TEST_CASE("tcp: a read is answered behind the rest of a message that is half sent [bytes]") {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64}, std::size_t{40'000}}) {
    CAPTURE(bytes);
    conversation c;
    memory read(*c.domain, bytes, tp::access::remote_read);
    memory back(*c.domain, bytes);
    read.fill(2);
    const std::uint64_t taken = c.fill(4999);
    const tp::segment s = back.all();
    post(*c.right[0], request(opcode::read, 1, s, read));
    c.arrive();  // the response waits
    CHECK(!c.put(taken, 8));
    c.until([&] { return !c.r.done.empty(); });
    CHECK(c.r.done[0].status == wc_status::success);
    CHECK(back.bytes == read.bytes);
    REQUIRE(c.r.all.size() == taken);
    REQUIRE(c.put(taken, 8));
    c.expect_in_order(taken + 1);
  }
}

TEST_CASE("tcp: messages that are put and posted in turn arrive in order, once each") {
  constexpr std::uint64_t count = 3000;
  conversation c;
  for (std::size_t i = 0; i < receives; ++i) c.r.post_receive();
  std::uint64_t next = 0, posted = 0, put = 0;
  c.until([&] {
    for (int burst = 0; burst < 20 && next < count; ++burst) {
      // the following messages can be put again
      if (next % 50 == 0 && posted != c.l.done.size()) break;
      const std::size_t bytes = next % 97;
      if (next % 7 != 3 && c.put(next, bytes)) {
        ++put;
      } else {
        c.send(next, bytes);
        ++posted;
      }
      ++next;
    }
    return c.r.all.size() == count;
  });
  c.expect_in_order(count);
  CHECK(put > 0);
  c.until([&] { return c.l.done.size() == posted; });
  CHECK(std::ranges::all_of(
      c.l.done, [](const tp::completion& d) { return d.status == wc_status::success; }));
  CHECK(std::ranges::all_of(c.r.all, [](const got& g) { return g.in_place; }));
}

TEST_CASE(
    "tcp: messages too long to lie there whole take receives, and stay in order with others") {
  constexpr std::size_t large = 40'000;
  conversation c;
  memory in(*c.domain, large + 100);
  const tp::segment s = in.all();
  c.r.queue->post_recv({.id = 0, .segment_count = 1, .segments = &s});
  std::vector<std::uint64_t> order;  // lengths
  REQUIRE(c.put(0, 8));
  memory out(*c.domain, large);
  const tp::segment t = out.all();
  post(*c.left[0], request(opcode::send, 9, t));
  CHECK(!c.put(1, 8));  // the posted message may be refused, and later ones dropped
  bool before = false;
  for (int i = 0; i < most_polls && c.l.done.empty(); ++i) {
    std::array<tp::completion, 4> done;
    bool progressed = false;
    const std::size_t n = c.b.adapter->poll(done, progressed);
    for (std::size_t k = 0; k < n; ++k) order.push_back(done[k].byte_len);
    for (const tp::arrived_message& m : c.b.adapter->arrived()) order.push_back(m.bytes);
    before = before || (!c.b.adapter->arrived().empty() && n != 0);
    if (!c.b.adapter->arrived().empty()) c.b.adapter->release_arrived();
    c.l.poll();
    c.home.turn();
  }
  CHECK(order == std::vector<std::uint64_t>{sizeof(tp::message_head) + 8, large});
  CHECK(!before);
  REQUIRE(c.put(1, 8));
  c.until([&] { return c.r.all.size() == 1; });
  CHECK(c.r.all[0].in_place);
}

TEST_CASE(
    "tcp: one that stays takes a receive, with all behind it; without one it waits, and is not "
    "lost") {
  conversation c;
  for (std::size_t i = 0; i < receives; ++i) c.r.post_receive();
  c.r.stays_from = 5;
  for (std::uint64_t i = 0; i < 10; ++i) REQUIRE(c.put(i, 30));
  c.arrive();
  c.until([&] { return c.r.all.size() == 9; });
  c.settle(100);
  REQUIRE(c.r.all.size() == 9);  // there is no receive for the last one
  for (std::size_t i = 0; i < 9; ++i) CHECK(c.r.all[i].in_place == (i < 5));
  REQUIRE(c.put(10, 30));
  c.settle(100);
  CHECK(c.r.all.size() == 9);
  CHECK(c.b.adapter->arm() == cordma::arm_state::armed);  // only a receive can change that
  c.b.adapter->disarm();
  c.r.post_receive();
  CHECK(c.b.adapter->arm() == cordma::arm_state::busy);
  c.expect_in_order(11);
  CHECK(!c.r.all[9].in_place);
  CHECK(c.r.all[10].in_place);
  CHECK(c.r.events.empty());
}

TEST_CASE(
    "tcp: a posted message that stays and finds no receive is sent again; meanwhile none is put") {
  conversation c;
  c.r.stays_from = 0;
  c.send(0, 30);
  c.settle(200);
  CHECK(c.r.all.empty());
  CHECK(!c.put(1, 30));
  c.r.post_receive();
  c.until([&] { return c.l.done.size() == 1; });
  CHECK(c.l.done[0].status == wc_status::success);
  REQUIRE(c.r.all.size() == 1);
  CHECK(!c.r.all[0].in_place);
  REQUIRE(c.put(1, 30));
  c.expect_in_order(2);
  CHECK(c.r.all[1].in_place);
}

TEST_CASE(
    "tcp: a poll hands out no more than it was asked for, and does not sleep on what is left") {
  conversation c;
  for (std::uint64_t i = 0; i < 100; ++i) REQUIRE(c.put(i, 8));
  c.arrive();
  c.r.most = 3;
  c.until([&] { return !c.r.all.empty(); });
  CHECK(c.r.all.size() <= 3);
  CHECK(c.b.adapter->arm() == cordma::arm_state::busy);
  c.expect_in_order(100);
  CHECK(c.b.adapter->arm() == cordma::arm_state::armed);
  c.b.adapter->disarm();
}

TEST_CASE("tcp: a sender with much to say does not keep others from their turn [connections]") {
  for (const std::size_t pairs : {2U, 6U}) {  // polled every time; some of them found by epoll
    CAPTURE(pairs);
    conversation c(pairs);
    for (std::uint64_t i = 0; i < 400; ++i) REQUIRE(c.put(i, 8));
    c.r.poll();
    for (std::size_t p = 1; p < pairs; ++p) REQUIRE(c.put(1000 + p, 8, p));
    c.until([&] { return c.r.all.size() == 400 + pairs - 1; });
    const auto last = std::ranges::find(c.r.all, std::uint64_t{399}, &got::number);
    for (std::size_t p = 1; p < pairs; ++p) {
      CHECK(std::ranges::find(c.r.all, 1000 + p, &got::number) < last);
    }
  }
}

TEST_CASE("tcp: a peer that dies while a part of a message waits ends the connection") {
  conversation c;
  const std::uint64_t taken = c.fill(4999);
  REQUIRE(taken > 0);
  c.right[0]->abort();
  c.until([&] { return !c.l.events.empty(); });
  CHECK(c.l.events[0].what == tp::cm_event::type::disconnected);
  CHECK(c.l.events[0].why.code() == errc::connection_reset);
  CHECK(!c.put(taken, 8));
  c.send(taken, 8);
  c.until([&] { return c.l.done.size() == 1; });
  CHECK(c.l.done[0].status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: a peer that takes nothing of a waiting part is taken for dead [virtual time]") {
  cordma::virtual_clock time;
  conversation c(1, {.mode = cordma::wait_mode::polling, .time = &time});
  REQUIRE(c.fill(4999) > 0);
  c.send(0, 8);  // a part of a message waits, or this message does
  for (int i = 0; i < 4 && c.l.events.empty(); ++i) {
    time.advance_to(time.now() + c.left[0]->actual().peer_timeout);
    c.home.turn();
    c.l.poll();
  }
  REQUIRE(!c.l.events.empty());
  CHECK(c.l.events[0].why.message().find("taken for dead") != std::string::npos);
}

TEST_CASE("tcp: all that was put comes before a graceful end, a part that waits as well") {
  conversation c;
  const std::uint64_t taken = c.fill(4999);
  c.left[0]->disconnect();
  CHECK(!c.put(taken, 8));
  c.until([&] { return !c.l.events.empty() && !c.r.events.empty(); });
  REQUIRE(c.r.all.size() == taken);
  for (std::uint64_t i = 0; i < taken; ++i) REQUIRE(c.r.all[i].number == i);
  CHECK(c.r.events[0].what == tp::cm_event::type::disconnected);
  CHECK(c.r.events[0].why.code() == errc::not_connected);
}

TEST_CASE("tcp: what lies there of a connection that goes is not looked at") {
  conversation c;
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(c.put(i, 8));
  bool progressed = false;
  std::array<tp::completion, 4> out;
  for (int i = 0; i < most_polls && c.b.adapter->arrived().empty(); ++i) {
    CHECK(c.b.adapter->poll(out, progressed) == 0);
  }
  REQUIRE(!c.b.adapter->arrived().empty());
  CHECK(c.b.adapter->arrived()[0].from == c.right[0].get());
  c.right[0].reset();
  for (const tp::arrived_message& m : c.b.adapter->arrived()) CHECK(m.from == nullptr);
  c.b.adapter->release_arrived();
  c.until([&] { return !c.l.events.empty(); });
  CHECK(c.r.all.empty());
}
