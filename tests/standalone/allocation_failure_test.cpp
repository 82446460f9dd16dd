// G3: the n-th allocation fails, for every n: while a Context and its Worker are made, during a whole session, and
// during one of messages, calls and a stream. It ends with no_memory on what was hit, never with the end of the
// program; a connection that was up before carries on, the next session goes well, and nothing is left behind.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/fd_count.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <array>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "session.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

const applies heap_can_fail{counts_allocations, "TSan's operator new cannot be made to fail"};
const applies on_a_device = only_on(transport::kind::verbs, "it takes a device");
constexpr std::array<failing, 2> manners{failing::once, failing::from_then_on};
constexpr std::uint64_t most = 5000;  // allocations; no session takes as many

template <class Play>
outcome attempt(std::uint64_t n, failing how, Play play) {
  fail_allocation(n, how);
  outcome o;
  try {
    play();
    o.came = allocation_failed();
    fail_allocation(0);
  } catch (const std::bad_alloc&) {
    fail_allocation(0);
    o = {.came = true, .failed = true, .memory = true, .loss = false, .why = "std::bad_alloc"};
  } catch (const error& e) {
    fail_allocation(0);
    const errc code = e.why().first_cause().code();
    o = {.came = true,
         .failed = true,
         .memory = code == errc::no_memory,
         .loss = is_loss(code),
         .why = e.what()};
  }
  return o;
}

void fail_each_of_opening(transport::kind over, failing how) {
  { const stage first({}, over); }  // librdmacm keeps the devices it has found open
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [over] { const stage s({}, over); });
    CAPTURE(o.why);
    CHECK((o.memory || o.loss) == o.failed);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n > 1);
  CHECK(n < most);
}

// ---- a session of messages ----

// Both sides of it; what is known of a message that nobody waits for.
struct talk {
  explicit talk(stage& s)
      : on(s),
        client(s.client(), {.eager_bytes = 8192}),
        server(s.server(), {.eager_bytes = 8192}),
        asks(client),
        answers(server) {}
  stage& on;
  MemoryRegion out = client_memory(on, session_sizes.back());
  MemoryRegion in = server_memory(on, session_sizes.back());
  MemoryRegion answer = client_memory(on, session_sizes.back());
  Messages client;
  Messages server;
  Requests asks;
  Requests answers;
  std::optional<wire> between = {};
  int heard = 0;
  std::optional<Stream> far = {};
  std::optional<failure> far_failed = {};
};

task<> hear(talk* t, ActiveMessage m) {
  if (m.data().size() != m.size()) co_await m.read(t->in.all().first(m.size()));
  ++t->heard;
}

task<> reply(talk* t, Request r) {
  if (r.data().size() != r.size()) co_await r.read(t->in.all().first(r.size()));
  co_await r.respond(t->in.all().first(r.size()));
}

// Matched before and after it arrives; an active message; a call.
task<> say_all(talk* t, std::size_t size) {
  const Slice out = t->out.all().first(size);
  const Slice in = t->in.all().first(size);
  Endpoint& client = t->between->client;
  Endpoint& server = t->between->server;
  tag_recv_operation early = server.tag_recv(1, in).start();
  co_await client.tag_send(1, out);
  co_await early;
  message_send_operation late = client.tag_send(2, out).start();
  while (!t->server.tag_probe(2) && server.state() == endpoint_state::connected &&
         !(late.done() && late.take_result().code() != errc::ok)) {
    co_await yield();
  }
  co_await server.tag_recv(2, in);
  co_await late;
  constexpr std::span<const std::byte> no_header;
  const int before = t->heard;
  co_await client.am_send(1, no_header, out);
  // Whom there was no memory for to be handled nobody waits for.
  while (t->heard == before && t->server.handler_failures() == 0 &&
         server.state() == endpoint_state::connected) {
    co_await yield();
  }
  if (t->server.handler_failures() != 0) throw_error(errc::no_memory);
  const call_options limited{.timeout = std::chrono::seconds(10)};
  co_await t->asks.call(client, 1, out, t->answer, limited);
}

task<> open_far(talk* t, Endpoint e) {
  try {
    Stream opened = co_await Stream::open(t->on.server_context(), std::move(e));
    t->far.emplace(std::move(opened));
  } catch (const error& e2) {
    t->far_failed = e2.why();
  }
}

task<> pour(talk* t) {
  wire w = co_await connect_in_time(t->on);
  scope other(t->on.loop());
  other.spawn(open_far(t, std::move(w.server)));
  Stream near = co_await Stream::open(t->on.client_context(), std::move(w.client));
  co_await other.join();
  if (!t->far) throw_error(*t->far_failed);
  co_await near.write(t->out.bytes());
  co_await t->far->read(t->in.bytes());
  co_await near.close();
}

task<> message_session(stage& on) {
  talk t(on);
  talk* const at = &t;
  t.server.on(1, [at](ActiveMessage m) { return hear(at, std::move(m)); });
  t.answers.serve(1, [at](Request r) { return reply(at, std::move(r)); });
  wire w = co_await connect_in_time(on, with(t.client), with(t.server));
  t.between.emplace(std::move(w));
  for (const std::size_t size : session_sizes) co_await say_all(at, size);
  co_await pour(at);
  co_await t.between->client.close();
}

void fail_each_of_session(transport::kind over, failing how, task<> (*one)(stage&)) {
  stage s({}, over);
  wire healthy = s.play([](stage& on) -> task<wire> { return connect(on); });
  // Twice: what is had when it is first used is here then.
  for (int i = 0; i < 2; ++i) {
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(one);
  }
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  int failures = 0;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [&s, one] { s.play(one); });
    CAPTURE(o.why);
    CHECK((o.memory || o.loss) == o.failed);
    failures += o.failed ? 1 : 0;
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(one);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n < most);
  CHECK(failures > 0);
}

void fail_each_of_plain(transport::kind over, failing how) {
  fail_each_of_session(over, how, session);
}
void fail_each_of_messages(transport::kind over, failing how) {
  fail_each_of_session(over, how, message_session);
}

void each_manner(void (*run)(transport::kind, failing), transport::kind over) {
  for (const failing how : manners) {
    CAPTURE(how == failing::once);
    run(over, how);
  }
}

}  // namespace

TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [shm]" *
          heap_can_fail) {
  each_manner(fail_each_of_opening, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [tcp]" *
          heap_can_fail) {
  each_manner(fail_each_of_opening, transport::kind::tcp);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [shm]" * heap_can_fail) {
  each_manner(fail_each_of_plain, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [tcp]" * heap_can_fail) {
  each_manner(fail_each_of_plain, transport::kind::tcp);
}

TEST_CASE("G3: the n-th allocation of messages, calls and a stream fails, for every n [shm]" *
          heap_can_fail) {
  each_manner(fail_each_of_messages, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of messages, calls and a stream fails, for every n [tcp]" *
          heap_can_fail) {
  each_manner(fail_each_of_messages, transport::kind::tcp);
}

namespace {

// How it is refused while there is no memory at all.
template <class Operation>
errc without_memory(Operation op) {
  fail_allocation(1, failing::from_then_on);
  op.start();
  fail_allocation(0);
  REQUIRE(op.done());
  return op.take_result().code();
}

task<> respond_badly(talk* t, Request r) {
  const std::string far(1000, 'x');
  CHECK(without_memory(r.redirect(far)) == errc::invalid_value);
  CHECK(without_memory(r.respond(t->in.all())) == errc::truncated);
  ++t->heard;
  co_return;
}

task<> refusals(stage& on) {
  talk t(on);
  talk* const at = &t;
  t.answers.serve(2, [at](Request r) { return respond_badly(at, std::move(r)); });
  wire w = co_await connect_in_time(on, with(t.client), with(t.server));
  Endpoint& to = w.client;
  const Slice whole = t.out.all();
  // What is had when it is first used is here then.
  message_send_operation first = to.tag_send(1, whole).start();
  co_await t.server.tag_recv(1, t.in);
  co_await first;
  const std::vector<Slice> pieces(most_message_slices + 1, whole.first(1));
  CHECK(without_memory(to.tag_send(1, pieces)) == errc::invalid_value);
  const std::vector<std::byte> header(most_am_header + 1);
  CHECK(without_memory(to.am_send(1, header, whole)) == errc::invalid_value);
  const MemoryRegion foreign = server_memory(on, 8);
  CHECK(without_memory(to.tag_send(1, foreign)) == errc::invalid_value);
  CHECK(without_memory(to.send(pieces)) == errc::bad_state);
  CHECK(without_memory(to.write(RemoteSlice(0, 7, {}), whole)) == errc::invalid_value);
  for (const std::size_t bytes : {std::size_t{100}, whole.size()}) {
    CAPTURE(bytes);
    message_send_operation sent = to.tag_send(2, whole.first(bytes)).start();
    while (!t.server.tag_probe(2)) co_await yield();
    tag_recv_operation received = t.server.tag_recv(2, t.in.all().first(3));
    fail_allocation(1, failing::from_then_on);
    received.start();
    while (!received.done()) co_await yield();
    fail_allocation(0);
    CHECK(received.take_result().code() == errc::truncated);
    const result<void> end = co_await sent.result();
    CHECK(end.code() == (bytes == 100 ? errc::ok : errc::truncated));
  }
  const result<Response> refused =
      co_await t.asks.call(to, 2, Slice(), t.answer.all().first(3)).result();
  CHECK(refused.code() == errc::truncated);
  CHECK(t.heard == 1);
  const result<Response> unserved = co_await t.asks.call(to, 3, Slice()).result();
  CHECK(unserved.code() == errc::not_found);
}

}  // namespace

TEST_CASE("what is refused while there is no memory is refused by its code [shm]" * heap_can_fail) {
  stage s({}, transport::kind::shm);
  s.play(refusals);
}
TEST_CASE("what is refused while there is no memory is refused by its code [tcp]" * heap_can_fail) {
  stage s({}, transport::kind::tcp);
  s.play(refusals);
}

// On a device, in the virtual machine.
TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [verbs]" *
          heap_can_fail * on_a_device) {
  each_manner(fail_each_of_opening, transport::kind::verbs);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [verbs]" * heap_can_fail *
          on_a_device) {
  each_manner(fail_each_of_plain, transport::kind::verbs);
}

TEST_CASE("G3: the n-th allocation of messages, calls and a stream fails, for every n [verbs]" *
          heap_can_fail * on_a_device) {
  each_manner(fail_each_of_messages, transport::kind::verbs);
}

TEST_CASE("G3: a connection that ends while there is no memory ends as always [verbs]" *
          heap_can_fail * on_a_device) {
  for (const bool gracefully : {true, false}) {
    CAPTURE(gracefully);
    stage s({}, transport::kind::verbs);
    s.play(
        [](stage& on, bool in_peace) -> task<> {
          wire w = co_await connect(on);
          std::optional<state_operation> closing;
          if (in_peace) closing.emplace(w.server.close().start());
          fail_allocation(1, failing::from_then_on);
          if (!in_peace) w.server.abort();
          while (w.client.state() != endpoint_state::closed) co_await yield();
          while (w.server.state() != endpoint_state::closed) co_await yield();
          fail_allocation(0);
          const errc expected = in_peace ? errc::not_connected : errc::connection_reset;
          CHECK(w.client.first_cause()->code() == expected);
        },
        gracefully);
  }
}
