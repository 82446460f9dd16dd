// G3: the n-th allocation fails, for every n: during the creation of a Context and its Worker,
// during a complete session, and during one of messages, calls and a stream. The affected operation
// fails with no_memory, and the program never ends. An established connection still works, the next
// session succeeds, and nothing is left behind.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/fd_count.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "session.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

const applies heap_can_fail{counts_allocations, "TSan's operator new cannot be made to fail"};
const applies on_a_device = only_on(transport::kind::verbs, "it takes a device");
constexpr std::array<failing, 2> manners{failing::once, failing::from_then_on};
constexpr std::uint64_t most = 5000;  // allocations; no session makes as many

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
  { const stage first({}, over); }  // librdmacm keeps devices that it opened
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

// Both sides of it, and the state of a message without a receive.
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
  // A message without memory for its handler is not waited for.
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

// A connection that has ended on a device may keep its descriptor until the peer's last message
// arrives.
void await_descriptors(stage& s, std::size_t before) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (open_descriptors() > before && std::chrono::steady_clock::now() < until) s.loop().turn();
}

// Fails every `step`-th allocation. Starts with the first for failing::once, else (if `step` > 1)
// with the second.
void fail_each_of_session(transport::kind over, failing how, task<> (*one)(stage&),
                          std::uint64_t step = 1) {
  stage s({}, over);
  wire healthy = s.play([](stage& on) -> task<wire> { return connect(on); });
  // Twice: then everything that is allocated at its first use exists.
  for (int i = 0; i < 2; ++i) {
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(one);
  }
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = how == failing::once ? 1 : std::min<std::uint64_t>(2, step);
  int failures = 0;
  for (; n < most; n += step) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [&s, one] { s.play(one); });
    CAPTURE(o.why);
    CHECK((o.memory || o.loss) == o.failed);
    failures += o.failed ? 1 : 0;
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(one);
    await_descriptors(s, open_before);
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
  // An emulated machine takes half a minute for all of them.
  fail_each_of_session(over, how, message_session, over == transport::kind::verbs ? 3 : 1);
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

// Result of starting the operation without any memory.
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
  const std::string_view elsewhere = "a-host-of-a-longer-name.example:12345";
  fail_allocation(1, failing::from_then_on);
  respond_operation redirecting = r.redirect(elsewhere).start();
  fail_allocation(0);
  REQUIRE(redirecting.done());
  CHECK(redirecting.take_result().code() == errc::no_memory);
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
  // Then everything that is allocated at its first use exists.
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

namespace {

// Receives on enough connections that the client's Worker has no slot for another request.
struct full_worker {
  std::vector<wire> wires;
  std::vector<recv_operation> receives;
};

task<full_worker> fill_up(stage& on, Slice room) {
  constexpr std::uint32_t depth = 4096;
  connect_options deep;
  deep.endpoint.recv_depth = depth;
  full_worker f;
  for (std::uint32_t reserved = 0; reserved <= detail::most_reserved; reserved += depth) {
    wire w = co_await connect_in_time(on, deep);
    f.wires.push_back(std::move(w));
  }
  f.receives.reserve(f.wires.size() * depth);
  // A receive of a single slice may be held, and then has no slot.
  const std::array halves{room.first(room.size() / 2), room.part(room.size() / 2, room.size() / 2)};
  for (wire& w : f.wires) {
    for (std::uint32_t i = 0; i < depth; ++i) {
      fail_allocation(1, failing::from_then_on);
      f.receives.push_back(w.client.recv(halves).start());
      fail_allocation(0);
      if (!f.receives.back().done()) continue;
      CHECK(f.receives.back().take_result().code() == errc::no_memory);
      co_return f;
    }
  }
  throw std::logic_error("there was room for all");
}

task<> write_without_room(stage& on) {
  for (const bool copied : {true, false}) {
    CAPTURE(copied);
    talk t(on);
    wire w = co_await connect_in_time(on);
    scope other(on.loop());
    other.spawn(open_far(&t, std::move(w.server)));
    Stream near = co_await Stream::open(on.client_context(), std::move(w.client));
    co_await other.join();
    full_worker full = co_await fill_up(on, t.out.all().first(8));
    const Slice out = t.out.all().first(100);
    stream_write_operation writing =
        copied ? near.write_some(std::as_const(out).bytes()) : near.write(out);
    fail_allocation(1, failing::from_then_on);
    writing.start();
    fail_allocation(0);
    const result<std::size_t> refused = co_await writing.result();
    CHECK(refused.code() == errc::no_memory);
    const result<std::size_t> after = co_await near.write_some(out.bytes()).result();
    CHECK(after.code() == errc::no_memory);
    const result<std::size_t> cut = co_await t.far->read_some(t.in.bytes()).result();
    CHECK(is_loss(cut.code()));
    // Memory is available again, and earlier connections work.
    wire next = co_await connect_in_time(on);
    co_await use(on, &next);
  }
}

}  // namespace

TEST_CASE("G3: a stream ends with no_memory where its Worker has no room for a piece [shm]" *
          heap_can_fail) {
  stage s({}, transport::kind::shm);
  s.play(write_without_room);
}
TEST_CASE("G3: a stream ends with no_memory where its Worker has no room for a piece [tcp]" *
          heap_can_fail) {
  stage s({}, transport::kind::tcp);
  s.play(write_without_room);
}

// Slots of datagrams need more memory than those of connections: all of it is allocated, or
// nothing.
TEST_CASE("G3: a datagram's request that there is no room for is refused, and the next is not" *
          heap_can_fail) {
  stage s({}, transport::kind::sim);
  s.play([](stage& on) -> task<> {
    constexpr std::uint32_t depth = 4096;
    constexpr std::uint32_t parts = 3;  // minimum allocations of one growth
    endpoint_options deep;
    deep.recv_depth = depth;
    const MemoryRegion room = client_memory(on, 64);
    std::vector<DatagramEndpoint> ports;
    for (std::uint32_t reserved = 0; reserved <= detail::most_reserved; reserved += depth) {
      ports.push_back(on.client().datagram(deep).value());
    }
    std::vector<datagram_recv_operation> receives;
    receives.reserve(ports.size() * depth + parts);
    int refused = 0;
    for (DatagramEndpoint& port : ports) {
      for (std::uint32_t i = 0; i + parts < depth; ++i) {
        fail_allocation(1 + static_cast<std::uint64_t>(refused) % parts);
        receives.push_back(port.recv_from(room).start());
        const bool failed = allocation_failed();
        fail_allocation(0);
        CHECK(receives.back().done() == failed);
        if (!failed) continue;
        CHECK(receives.back().take_result().code() == errc::no_memory);
        receives.pop_back();
        ++refused;
      }
    }
    CHECK(refused >= static_cast<int>(parts) - 1);
    const std::size_t posted = receives.size();
    CHECK(on.client().counters().inflight == posted);
    // All of them exist, and no two share a slot.
    for (DatagramEndpoint& port : ports) co_await port.close();
    for (datagram_recv_operation& r : receives) {
      const result<Datagram> end = co_await r.result();
      CHECK(end.code() == errc::flushed);
    }
    CHECK(on.client().counters().inflight == 0);
  });
}

namespace {

using bytes_said = std::vector<std::byte>;

bytes_said raw(std::initializer_list<int> values, std::size_t size) {
  bytes_said all(size);
  std::ranges::transform(values, all.begin(), [](int v) { return static_cast<std::byte>(v); });
  return all;
}

bytes_said framed(protocol::frame_head head, const bytes_said& body) {
  head.body = static_cast<std::uint32_t>(body.size());
  bytes_said all(protocol::head_bytes);
  protocol::encode(head, std::span<std::byte, protocol::head_bytes>(all));
  all.insert(all.end(), body.begin(), body.end());
  return all;
}

bytes_said greeting(protocol::hello what) {
  bytes_said body(protocol::hello_bytes);
  protocol::encode(what, std::span<std::byte, protocol::hello_bytes>(body));
  return framed({.kind = protocol::frame_kind::hello, .word = protocol::frame_version}, body);
}

// Each of them ends the connection; those of the second list follow a hello.
const protocol::hello good_hello{
    .eager_bytes = 8192, .credits = 4, .offers = 8, .rails = 1, .devices = 1};
std::vector<bytes_said> first_frames() {
  using protocol::frame_kind;
  protocol::hello no_credits = good_hello;
  no_credits.credits = 0;
  bytes_said of_another_length = greeting(good_hello);
  of_another_length.pop_back();
  bytes_said unnamed = greeting(good_hello);
  unnamed[protocol::head_bytes] = std::byte{99};
  bytes_said twice = greeting(good_hello);
  twice[protocol::head_bytes + protocol::parameter_bytes] = twice[protocol::head_bytes];
  return {bytes_said(3, std::byte{0xEE}),
          bytes_said(64, std::byte{0xEE}),
          framed({.kind = frame_kind::hello, .word = 99}, bytes_said(protocol::hello_bytes)),
          framed({.kind = frame_kind::given}, {}),
          greeting(no_credits),
          of_another_length,
          unnamed,
          twice};
}
std::vector<bytes_said> later_frames() {
  using protocol::frame_kind;
  return {
      framed({.kind = frame_kind::rail}, bytes_said(500)),
      framed({.kind = frame_kind::done, .word = std::uint64_t{99} << 32}, {}),
      framed({.kind = frame_kind::want}, bytes_said(3)),
      framed({.kind = frame_kind::tag_ready}, bytes_said(3)),
      framed({.kind = frame_kind::tag_ready}, raw({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99}, 64)),
      framed({.kind = frame_kind::tag_ready}, raw({1}, 64)),
      greeting(good_hello)};
}
// Headers of requests.
std::vector<bytes_said> malformed_requests() {
  return {bytes_said(16, std::byte{0xEE}), raw({1}, 3),           raw({1, 77}, 16),
          raw({1, 3, 0, 99}, 24),          raw({1, 2, 0xF8}, 48), raw({1, 2}, 16)};
}

// Waits for the end without memory for a message text, or for a part of it.
task<> until_it_ends(const Endpoint& there, std::uint64_t n, failing how) {
  fail_allocation(n, how);
  while (there.state() != endpoint_state::closed) co_await yield();
  fail_allocation(0);
  const errc code = there.first_cause()->code();
  CAPTURE(name(code));
  CHECK((code == errc::connection_aborted || code == errc::unsupported_version ||
         code == errc::no_memory));
}

task<> say_frame(stage& on, const bytes_said* what, const bytes_said* before, std::uint64_t n,
                 failing how) {
  Messages server(on.server(), {.eager_bytes = 8192});
  const connect_options plain;
  wire w = co_await connect_in_time(on, plain, with(server));
  const MemoryRegion out = client_memory(on, 1024);
  const MemoryRegion in = client_memory(on, 1024);
  recv_operation heard = w.client.recv(in).start();
  if (before != nullptr) {
    std::ranges::copy(*before, out.data());
    co_await w.client.send(out.all().first(before->size()));
    while (w.server.counters().recvs == 0) co_await yield();
  }
  std::ranges::copy(*what, out.data());
  send_operation said = w.client.send(out.all().first(what->size())).start();
  co_await until_it_ends(w.server, n, how);
  const result<void> sent = co_await said.result();
  const result<Received> got = co_await heard.result();
  static_cast<void>(sent.ok() && got.ok());
}

task<> say_request(stage& on, const bytes_said* what, std::uint64_t n, failing how) {
  talk t(on);
  wire w = co_await connect_in_time(on, with(t.client), with(t.server));
  const Slice nothing;
  const auto word = protocol::to_word(
      {.id = protocol::request_id_of_messages, .header = static_cast<std::uint16_t>(what->size())});
  message_send_operation said(w.client.core(), protocol::frame_kind::am_eager, word,
                              std::span(&nothing, 1));
  said.set_header(*what);
  said.start();
  co_await until_it_ends(w.server, n, how);
  const result<void> sent = co_await said.result();
  static_cast<void>(sent.ok());
}

void say_all_that_is_malformed(transport::kind over) {
  stage s({}, over);
  const bytes_said hello = greeting(good_hello);
  for (const failing how : manners) {
    for (std::uint64_t n = 1; n <= 4; ++n) {
      CAPTURE(n);
      for (const bytes_said& one : first_frames()) {
        s.play([](stage& on, const bytes_said* what, std::uint64_t nth,
                  failing manner) -> task<> { return say_frame(on, what, nullptr, nth, manner); },
               &one, n, how);
      }
      for (const bytes_said& one : later_frames()) {
        s.play([](stage& on, const bytes_said* what, const bytes_said* first, std::uint64_t nth,
                  failing manner) -> task<> { return say_frame(on, what, first, nth, manner); },
               &one, &hello, n, how);
      }
      for (const bytes_said& one : malformed_requests()) {
        s.play([](stage& on, const bytes_said* what, std::uint64_t nth,
                  failing manner) -> task<> { return say_request(on, what, nth, manner); },
               &one, n, how);
      }
    }
  }
}

}  // namespace

TEST_CASE("malformed frames and requests end their connection alone, without memory too [shm]" *
          heap_can_fail) {
  say_all_that_is_malformed(transport::kind::shm);
}
TEST_CASE("malformed frames and requests end their connection alone, without memory too [tcp]" *
          heap_can_fail) {
  say_all_that_is_malformed(transport::kind::tcp);
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

TEST_CASE(
    "G3: the n-th allocation of messages, calls and a stream fails, for every third n [verbs]" *
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
