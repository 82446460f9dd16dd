// Tagged messages: an operation that is canceled at the moment of its match has one outcome.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>

#include <optional>
#include <utility>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t short_bytes = 8;
// rendezvous: announced by an offer, and read by the receive
constexpr std::size_t long_bytes = 9000;

// One unexpected message is allowed; a second one has to wait.
constexpr message_options usual{.eager_bytes = 4096, .credits = 1};
constexpr std::uint64_t in_the_way = 0;  // a tag

// Both ends, and the state of the races so far.
struct arena {
  explicit arena(stage& on)
      : stage_of(on), client(on.client(), usual), server(on.server(), usual) {}
  stage& stage_of;
  Messages client;
  Messages server;
  std::optional<wire> w;
  MemoryRegion out = stage_of.client_context()
                         .allocate(long_bytes, access::local_write | access::remote_read)
                         .value();
  MemoryRegion in = server_memory(stage_of, long_bytes);
  MemoryRegion way_room = server_memory(stage_of, short_bytes);
  dice d{20};
  std::uint64_t canceled = 0;
};

// True if the receive has the message with this number.
bool has_got(const arena& a, const TagReceived& got, std::uint64_t number, std::size_t bytes) {
  return got.tag == number && got.bytes == bytes && a.in.as<std::uint64_t>()[0] == number;
}

// One message and one receive that is canceled, or reaches its deadline, a few passes after both
// have started. Either this receive or the next one has the message.
task<> race_receive(arena* a, std::uint64_t number) {
  arena& x = *a;
  const std::size_t bytes = x.d.below(4) == 0 ? long_bytes : short_bytes;
  x.out.as<std::uint64_t>()[0] = number;
  const Slice message = x.out.all().first(bytes);
  const bool receive_first = x.d.below(2) == 0;
  std::optional<message_send_operation> sending;
  if (!receive_first) sending.emplace(x.w->client.tag_send(number, message).start());
  tag_recv_operation receiving = x.server.tag_recv(number, x.in.all()).start();
  if (receive_first) sending.emplace(x.w->client.tag_send(number, message).start());
  for (std::size_t i = x.d.below(4); i > 0; --i) co_await moment(x.stage_of);
  receiving.cancel();
  result<TagReceived> got = co_await receiving.result();
  if (!got.ok()) {
    CHECK(got.code() == errc::canceled);
    ++x.canceled;
    tag_recv_operation again = x.server.tag_recv(number, x.in.all());
    got = co_await again.result();
  }
  CHECK(got.ok());
  if (got.ok()) CHECK(has_got(x, *got, number, bytes));
  message_send_operation& sent = *sending;
  co_await sent;
}

// One send that waits behind a message. That message is received, and the send is canceled a few
// passes later. The receive of its tag has it only if the send succeeded, and otherwise the send
// that follows.
task<> race_send(arena* a, std::uint64_t number) {
  arena& x = *a;
  const std::size_t bytes = x.d.below(2) == 0 ? long_bytes : short_bytes;
  x.out.as<std::uint64_t>()[0] = number;
  co_await x.w->client.tag_send(in_the_way, x.out.all().first(short_bytes));
  message_send_operation waiting = x.w->client.tag_send(number, x.out.all().first(bytes)).start();
  tag_recv_operation receiving = x.server.tag_recv(number, x.in.all()).start();
  co_await x.server.tag_recv(in_the_way, x.way_room.all());
  for (std::size_t i = x.d.below(8); i > 0; --i) co_await moment(x.stage_of);
  waiting.cancel();
  const result<void> sent = co_await waiting.result();
  if (!sent.ok()) {
    CHECK(sent.code() == errc::canceled);
    ++x.canceled;
    CHECK_FALSE(receiving.done());
    co_await x.w->client.tag_send(number, x.out.all().first(bytes));
  }
  const TagReceived got = co_await receiving;
  CHECK(has_got(x, got, number, bytes));
  CHECK_FALSE(x.server.tag_probe(number));  // received exactly once
}

using race = task<> (*)(arena*, std::uint64_t);

task<> repeat(arena* a, race one, std::uint64_t rounds) {
  wire joined = co_await connect_messages(a->stage_of, a->client, a->server);
  a->w.emplace(std::move(joined));
  for (std::uint64_t i = 0; i < rounds; ++i) co_await one(a, i + 1);
  co_await a->w->client.close();
}

void each_wins_some(race one) {
  stage on;
  arena a(on);
  const std::uint64_t rounds = rounds_under_test(100'000, 2000);
  on.play([](stage&, arena* x, race r, std::uint64_t n) { return repeat(x, r, n); }, &a, one,
          rounds);
  CHECK(a.canceled > 0);
  CHECK(a.canceled < rounds);
}

}  // namespace

TEST_CASE(
    "K10: canceling tagged receives against matching: exactly one outcome, and no message is lost "
    "[1e5 times; 2000 on verbs]") {
  each_wins_some(race_receive);
}

TEST_CASE(
    "K10: canceling tagged sends against matching: what says canceled never arrives, what does not "
    "arrives once [1e5 times; 2000 on verbs]") {
  each_wins_some(race_send);
}

namespace {

enum class fate : std::uint8_t { canceled, destroyed };

// A receiver that consumes no message without a receive of the test.
struct idle_receiver : two_messages {
  idle_receiver(stage& on, std::uint32_t credits)
      : two_messages(on, usual, {.eager_bytes = 4096, .credits = credits}) {}
};

void give_up(std::optional<message_send_operation>& sending, fate how) {
  if (how == fate::destroyed) return sending.reset();
  sending->cancel();
  CHECK(sending->take_result().code() == errc::canceled);
}

task<> close_behind(stage* on, idle_receiver* r, fate how) {
  wire w = co_await connect_messages(*on, r->client, r->server);
  const MemoryRegion out = client_memory(*on, short_bytes);
  co_await w.client.tag_send(1, out.all());
  std::optional<message_send_operation> waiting(w.client.tag_send(2, out.all()).start());
  state_operation closing = w.client.close().start();
  for (int i = 0; i < 20; ++i) co_await moment(*on);
  CHECK_FALSE(closing.done());
  give_up(waiting, how);
  co_await closing;
  while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
  CHECK(r->server.tag_probe(1));
  CHECK_FALSE(r->server.tag_probe(2));
}

task<> go_on_behind(stage* on, idle_receiver* r, fate how) {
  wire w = co_await connect_messages(*on, r->client, r->server);
  const MemoryRegion out =
      on->client_context().allocate(long_bytes, access::local_write | access::remote_read).value();
  const MemoryRegion in = server_memory(*on, long_bytes);
  // The maximum number of offers, and one message more, for which a credit would be left.
  std::vector<message_send_operation> announced;
  constexpr std::uint64_t most_announced = 64;
  for (std::uint64_t i = 0; i < most_announced; ++i) {
    announced.push_back(w.client.tag_send(1, out.all()).start());
  }
  std::optional<message_send_operation> waiting(w.client.tag_send(2, out.all()).start());
  message_send_operation behind = w.client.tag_send(3, out.all().first(short_bytes)).start();
  for (int i = 0; i < 200; ++i) co_await moment(*on);
  CHECK_FALSE(waiting->done());
  CHECK_FALSE(behind.done());
  give_up(waiting, how);
  const TagReceived got = co_await r->server.tag_recv(3, in.all());
  CHECK(got.bytes == short_bytes);
  co_await behind;
  for (std::uint64_t i = 0; i < most_announced; ++i) co_await r->server.tag_recv(1, in.all());
  for (message_send_operation& op : announced) co_await op;
  CHECK_FALSE(r->server.tag_probe(2));
}

using ending = task<> (*)(stage*, idle_receiver*, fate);

void each_way(ending story, std::uint32_t credits) {
  for (const fate how : {fate::canceled, fate::destroyed}) {
    CAPTURE(static_cast<int>(how));
    stage on;
    idle_receiver r(on, credits);
    on.play([](stage& s, idle_receiver* x, ending tell, fate f) { return tell(&s, x, f); }, &r,
            story, how);
  }
}

}  // namespace

TEST_CASE(
    "K10: closing waits for a message that waits, and no longer than somebody wants it sent") {
  each_way(close_behind, 1);
}

TEST_CASE("K10: what waits behind a long message goes when that is given up") {
  each_way(go_on_behind, 100);
}
