// Messages that are put: in order with posted ones, refused if they cannot be carried, without
// completions.
#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/limits.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

using namespace cordma;
using namespace cordma::transport;

namespace {

constexpr std::uint32_t room = 64;  // bytes of a message, at most
constexpr std::uint32_t most_body = room - sizeof(message_head);
constexpr std::uint32_t depth = 64;

std::byte body_byte(std::uint64_t number, std::uint32_t i) {
  return static_cast<std::byte>(number * 3 + i);
}

// Two queue pairs connected by descriptors, each on a separate adapter.
struct conversation {
  explicit conversation(const queue_pair_options& left_has = own_options(),
                        const queue_pair_options& right_has = own_options())
      : left(here->create(left_has).value()), right(there->create(right_has).value()) {
    const std::vector<std::byte> own = left->descriptor().value();
    left->connect(right->descriptor().value()).value();
    right->connect(own).value();
    while (events_left.empty() || events_right.empty()) poll();
    REQUIRE(events_left.front().what == cm_event::type::established);
    REQUIRE(events_right.front().what == cm_event::type::established);
    events_left.clear();
    events_right.clear();
  }
  conversation(const conversation&) = delete;
  conversation& operator=(const conversation&) = delete;
  ~conversation() {
    left.reset();
    right.reset();
    here.reset();
    there.reset();
    device->deregister_memory(keys.lkey);
  }
  static queue_pair_options own_options() {
    queue_pair_options o;
    o.send_depth = o.recv_depth = depth;
    o.inline_bytes = room;
    o.peer_timeout =
        std::chrono::minutes(1);  // messages wait for a receive longer than an idle peer's timeout
    return o;
  }
  [[nodiscard]] std::byte* place(std::uint64_t id) {
    return memory.data() + (id % (2 * depth)) * room;
  }
  void post_receive() {
    const std::uint64_t id = receives_posted++ % depth;
    const segment into{place(id), room, keys.lkey};
    completion now;
    static_cast<void>(right->post_recv({.id = id, .segment_count = 1, .segments = &into}, now));
  }
  void post_receives(std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) post_receive();
  }
  [[nodiscard]] bool put(std::uint64_t number, std::uint32_t bytes) {
    std::array<std::byte, 256> body;
    REQUIRE(bytes <= body.size());
    for (std::uint32_t i = 0; i < bytes; ++i) body[i] = body_byte(number, i);
    return left->put({number, bytes}, body.data(), bytes);
  }
  // Sends the same message by a request.
  void send(std::uint64_t number, std::uint32_t bytes, std::uint8_t flags = 0) {
    std::byte* const at = place(depth + number % depth);
    const message_head head{number, bytes};
    std::memcpy(at, &head, sizeof head);
    for (std::uint32_t i = 0; i < bytes; ++i) at[sizeof head + i] = body_byte(number, i);
    const segment from{at, static_cast<std::uint32_t>(sizeof head) + bytes, keys.lkey};
    completion now;
    static_cast<void>(left->post_send(
        {.id = depth + number, .flags = flags, .segment_count = 1, .segments = &from}, now));
  }
  void take(const completion& c) {
    message_head head;
    std::memcpy(&head, place(c.id), sizeof head);
    CHECK(c.byte_len == sizeof head + head.second);
    for (std::uint32_t i = 0; i < head.second; ++i) {
      CHECK(place(c.id)[sizeof head + i] == body_byte(head.first, i));
    }
    CHECK(head.first == received++);
  }
  void poll() {
    poll_left();
    std::array<completion, 16> out;
    bool progressed = false;
    const std::size_t n = there->poll(out, progressed);
    while (there->has_events()) events_right.push_back(there->next_event());
    for (std::size_t i = 0; i < n; ++i) {
      if (out[i].status == wc_status::success) take(out[i]);
    }
    static_cast<void>(loop.turn());
  }
  void poll_left() {
    std::array<completion, 16> out;
    bool progressed = false;
    const std::size_t n = here->poll(out, progressed);
    while (here->has_events()) events_left.push_back(here->next_event());
    sent.insert(sent.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
  }
  template <class Done>
  void until(Done now) {
    while (!now()) poll();
  }
  // Polls long enough for all pending messages to arrive.
  void settle() {
    for (int i = 0; i < 2000; ++i) poll();
  }

  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device = make_verbs({}).value();
  std::vector<std::byte> memory = std::vector<std::byte>(2 * depth * room);
  memory_keys keys =
      device
          ->register_memory(
              {.addr = memory.data(), .length = memory.size(), .rights = access::local_write})
          .value();
  std::unique_ptr<adapter> here = device->open(loop).value();
  std::unique_ptr<adapter> there = device->open(loop).value();
  std::unique_ptr<queue_pair> left;
  std::unique_ptr<queue_pair> right;
  std::uint64_t receives_posted = 0;
  std::uint64_t received = 0;
  std::vector<completion> sent;  // completions of the left side
  std::deque<cm_event> events_left;
  std::deque<cm_event> events_right;
};

}  // namespace

TEST_CASE("L5: a message that is put arrives as one, whatever its length, and completes nothing") {
  conversation c;
  c.post_receives(depth);
  std::uint64_t number = 0;
  for (const std::uint32_t bytes : {0U, 1U, 8U, most_body}) {
    CAPTURE(bytes);
    REQUIRE(c.put(number++, bytes));
    c.until([&] { return c.received == number; });
  }
  c.settle();
  CHECK(c.sent.empty());
  CHECK(c.events_left.empty());
  CHECK(c.events_right.empty());
}

TEST_CASE("L5: messages that are put and posted in turn arrive in order, once each") {
  conversation c;
  c.post_receives(depth);
  constexpr std::uint64_t count = 2000;
  std::uint64_t next = 0;
  std::uint64_t posted = 0;
  std::uint64_t put = 0;
  c.until([&] {
    while (c.receives_posted - c.received < depth) c.post_receive();
    for (int burst = 0; burst < 10 && next < count && next - c.received < depth; ++burst) {
      const auto bytes = static_cast<std::uint32_t>(next % (most_body + 1));
      if (next % 5 != 3 && c.put(next, bytes)) {
        ++put;
      } else {
        c.send(next, bytes);
        ++posted;
      }
      ++next;
    }
    return c.received == count && c.sent.size() == posted;
  });
  CHECK(put > count / 4);  // so their slots are released
  for (std::uint64_t i = 0; i < posted; ++i) CHECK(c.sent[i].status == wc_status::success);
}

TEST_CASE("L5: what is longer than the granted inline bytes is not put [inline bytes]") {
  for (const std::uint32_t inline_bytes : {0U, 8U, 16U, 32U}) {
    CAPTURE(inline_bytes);
    queue_pair_options o = conversation::own_options();
    o.inline_bytes = inline_bytes;
    conversation c(o);
    c.post_receives(1);
    REQUIRE(c.left->actual().inline_bytes == inline_bytes);
    const bool any = inline_bytes >= sizeof(message_head);
    const std::uint32_t longest = any ? inline_bytes - std::uint32_t{sizeof(message_head)} : 0;
    CHECK_FALSE(c.put(0, longest + 1));
    CHECK(c.put(0, longest) == any);
    if (any) c.until([&] { return c.received == 1; });
  }
}

TEST_CASE("L5: nothing is put while a request waits for its doorbell") {
  conversation c;
  c.post_receives(3);
  c.send(0, 8, post_flag::more);
  CHECK_FALSE(c.put(1, 8));
  c.left->ring();
  CHECK(c.put(1, 8));
  c.until([&] { return c.received == 2; });
  c.until([&] { return c.sent.size() == 1; });
}

TEST_CASE("L5: nothing is put over UC, nor to a peer that cannot be asked what became of it") {
  queue_pair_options closed = conversation::own_options();
  closed.remote_access = access::local_read;
  queue_pair_options unreliable = conversation::own_options();
  unreliable.type = service::uc;
  {
    conversation c(conversation::own_options(), closed);
    CHECK_FALSE(c.put(0, 8));
  }
  conversation c(unreliable, unreliable);
  CHECK_FALSE(c.put(0, 8));
}

TEST_CASE("L5: without a place nothing is put, what is posted has its own, and places come back") {
  conversation c;
  constexpr std::uint32_t places = verbs::puts_beside(depth);
  std::uint64_t number = 0;
  while (c.put(number, 8)) REQUIRE(++number <= places);  // no receive is posted
  CHECK(number == places);
  CHECK_FALSE(c.put(number, 8));
  for (std::uint32_t i = 0; i < depth; ++i) c.send(number++, 8);
  CHECK_FALSE(c.put(number, 8));
  c.until([&] {
    if (c.receives_posted < number && c.receives_posted - c.received < depth) c.post_receive();
    return c.received == number && c.sent.size() == depth;
  });
  for (int round = 0; round < 10; ++round) {
    for (std::uint32_t i = 0; i < places / 2; ++i) {
      c.post_receive();
      REQUIRE(c.put(number++, 8));
    }
    c.until([&] { return c.received == number; });
    c.settle();
  }
  CHECK(c.sent.size() == depth);
  CHECK(c.events_left.empty());
}

TEST_CASE("L5: all that was put comes before a graceful end [messages]") {
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{20}}) {
    CAPTURE(count);
    conversation c;
    c.post_receives(depth);
    for (std::uint64_t i = 0; i < count; ++i) REQUIRE(c.put(i, 8));
    c.left->disconnect();
    CHECK_FALSE(c.put(count, 8));
    c.until([&] { return !c.events_left.empty() && !c.events_right.empty(); });
    CHECK(c.received == count);
    CHECK(c.sent.empty());
    for (const auto& events : {&c.events_left, &c.events_right}) {
      CHECK(events->front().what == cm_event::type::disconnected);
      CHECK(events->front().why.code() == errc::not_connected);
    }
  }
}

TEST_CASE("L5: what is put to a dead peer ends the connection, and completes nothing") {
  queue_pair_options o = conversation::own_options();
  o.peer_timeout = std::chrono::seconds(2);
  conversation c(o, o);
  c.right.reset();
  std::uint64_t number = 0;
  while (c.events_left.empty()) {
    static_cast<void>(c.put(number++, 8));
    c.poll_left();
    static_cast<void>(c.loop.turn());
  }
  CHECK(c.events_left.front().what == cm_event::type::disconnected);
  CHECK(c.events_left.front().why.code() != errc::not_connected);
  CHECK_FALSE(c.put(number, 8));
  c.send(0, 8);
  c.until([&] { return !c.sent.empty(); });
  c.settle();
  REQUIRE(c.sent.size() == 1);
  CHECK(c.sent[0].status == wc_status::wr_flush_err);
  CHECK(c.sent[0].id == depth);
  CHECK(c.events_left.size() == 1);
}

TEST_CASE("L5: a connection that is aborted takes no puts, and those under way complete nothing") {
  conversation c;
  for (std::uint64_t i = 0; i < 20; ++i) REQUIRE(c.put(i, 8));  // no receive is posted
  c.left->abort();
  CHECK_FALSE(c.put(20, 8));
  c.until([&] { return !c.events_left.empty(); });
  CHECK(c.events_left.front().why.code() == errc::connection_reset);
  c.settle();
  CHECK(c.sent.empty());
}
