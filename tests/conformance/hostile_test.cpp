// Peers that obey the transport's rules and violate those of messages or streams, with well-formed
// frames at the wrong time. The connection ends with its cause, every waiter resumes once, and
// other connections are not affected.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/streams/stream_core.hpp>
#include <cordma/net/transport/little_endian.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using protocol::frame_kind;

constexpr std::size_t long_bytes = 20'000;
constexpr std::uint32_t credits = 4;  // of both sides
constexpr std::uint64_t by_parts = 11;
constexpr std::uint64_t by_anyone = 12;
constexpr std::uint64_t unwanted = 50;
constexpr std::uint32_t nobodys_key = 0x00DEAD01;

struct heard_frame {
  protocol::frame_head head;
  std::vector<std::byte> body;
};

// The peer: a plain Endpoint, and the frames that it received.
struct rogue {
  rogue(stage& s, Endpoint& e)
      : on(&s), endpoint(&e), out(client_memory(s, 9000)), in(client_memory(s, 9000)) {}
  stage* on;
  Endpoint* endpoint;
  MemoryRegion out;
  MemoryRegion in;
  std::vector<heard_frame> heard;
  std::uint32_t unreadable = 0;  // numbers of the victim's offers: without and with readable memory
  std::uint32_t readable = 0;
};

task<> hear_all(rogue* r) {
  for (;;) {
    const result<Received> got = co_await r->endpoint->recv(r->in).result();
    if (!got) co_return;
    const auto frame = r->in.bytes().first(got->bytes);
    protocol::frame_head head;
    protocol::decode(frame, head).value();
    const auto body = frame.subspan(protocol::head_bytes);
    r->heard.push_back({head, std::vector<std::byte>(body.begin(), body.end())});
  }
}

const heard_frame* find(const rogue& r, frame_kind kind, std::size_t nth = 0) {
  for (const heard_frame& f : r.heard) {
    if (f.head.kind == kind && nth-- == 0) return &f;
  }
  return nullptr;
}

task<> until_heard(rogue* r, frame_kind kind, std::size_t count = 1) {
  while (find(*r, kind, count - 1) == nullptr &&
         r->endpoint->state() == endpoint_state::connected) {
    co_await moment(*r->on);
  }
}

task<> say(rogue* r, protocol::frame_head head, std::vector<std::byte> body = {}) {
  head.body = static_cast<std::uint32_t>(body.size());
  const std::span<std::byte> frame = r->out.bytes();
  protocol::encode(head, frame.first<protocol::head_bytes>());
  std::ranges::copy(body, frame.begin() + protocol::head_bytes);
  const Slice all = r->out.all().first(protocol::head_bytes + body.size());
  const result<void> sent = co_await r->endpoint->send(all).result();
  static_cast<void>(sent.ok());
}

task<> say_hello(rogue* r, std::uint64_t version = protocol::frame_version) {
  std::vector<std::byte> body(protocol::hello_bytes);
  protocol::encode(
      protocol::hello{
          .eager_bytes = 8192, .credits = credits, .offers = 8, .rails = 1, .devices = 1},
      std::span<std::byte, protocol::hello_bytes>(body));
  co_await say(r, {.kind = frame_kind::hello, .given = credits, .word = version}, body);
}

task<> say_want(rogue* r, std::uint32_t number, protocol::want what) {
  std::vector<std::byte> body(protocol::want_bytes);
  protocol::encode(what, std::span<std::byte, protocol::want_bytes>(body));
  co_await say(r, {.kind = frame_kind::want, .given = credits, .word = number}, body);
}

task<> say_part(rogue* r, std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> body(bytes);
  co_await say(r, {.kind = frame_kind::part, .given = credits, .word = number}, body);
}

task<> say_wrote(rogue* r, std::uint32_t number) {
  co_await say(r, {.kind = frame_kind::wrote, .given = credits, .word = number});
}

task<> say_done(rogue* r, std::uint32_t number) {
  const protocol::done_word word{.offer = number, .outcome = protocol::offer_outcome::refused};
  co_await say(r, {.kind = frame_kind::done, .given = credits, .word = protocol::to_word(word)});
}

// Sends an offer of a message that is sent in parts.
task<> say_offer(rogue* r, protocol::frame_head head, std::uint32_t number, std::uint64_t total) {
  const protocol::offer what{.total = total, .number = number};
  std::vector<std::byte> body(protocol::bytes_of(what));
  protocol::encode(what, body);
  head.given = credits;
  co_await say(r, head, body);
}

// Offers a message that the victim has a receive for, until the victim requests its first part.
task<> begin_parts(rogue* r) {
  co_await say_offer(r, {.kind = frame_kind::tag_ready, .word = by_parts}, 7, long_bytes);
  co_await until_heard(r, frame_kind::want);
}

// ---- the victim ----

struct waiter {
  const char* what;
  int resumed = 0;
  errc code = errc::ok;
};

template <class Op>
task<> wait_for(Op op, waiter* w) {
  const auto end = co_await op.result();
  ++w->resumed;
  w->code = end.code();
}

struct victim {
  victim(stage& s)
      : on(&s),
        messages(s.server(), {.credits = credits}),
        good(s.client()),
        open(server_memory(s, long_bytes)),
        closed(server_memory(s, long_bytes, access::local_write)),
        into(server_memory(s, long_bytes, access::local_write)),
        into_any(server_memory(s, long_bytes)),
        theirs(client_memory(s, long_bytes)) {}
  stage* on;
  Messages messages;
  Messages good;  // for an honest peer
  MemoryRegion open;
  MemoryRegion closed;  // not readable by the peer
  MemoryRegion into;
  MemoryRegion into_any;
  MemoryRegion theirs;
};

std::vector<waiter> every_waiter() {
  return {{"an offer that cannot be read"},
          {"an offer"},
          {"a receive of the endpoint"},
          {"a short message"},
          {"another"},
          {"one that waits for a credit"}};
}

// Starts more sends than the rogue granted credits for, and a receive.
void begin_waiting(victim& v, Endpoint& e, scope& in, std::vector<waiter>& w) {
  in.spawn(wait_for(e.tag_send(1, v.closed), &w[0]));
  in.spawn(wait_for(e.tag_send(2, v.open), &w[1]));
  in.spawn(wait_for(e.tag_recv(by_parts, v.into), &w[2]));
  for (std::size_t i = 3; i < w.size(); ++i) {
    in.spawn(wait_for(e.tag_send(i, v.open.all().first(8)), &w[i]));
  }
}

// Segments of the victim's receive queues that are neither posted nor free.
std::size_t held_segments(Messages& m) {
  std::size_t sum = 0;
  for (const auto& port : m.core().ports()) sum += port->held_segments();
  return sum;
}

// Sends an eager and a rendezvous message in each direction.
task<> talk(victim* v, wire* w) {
  constexpr std::array<std::size_t, 2> sizes{8, long_bytes};
  for (const std::size_t bytes : sizes) {
    tag_recv_operation there = v->messages.tag_recv(77, v->into.all()).start();
    co_await w->client.tag_send(77, v->theirs.all().first(bytes));
    const TagReceived got = co_await there;
    CHECK(got.bytes == bytes);
    tag_recv_operation back = v->good.tag_recv(78, v->theirs.all()).start();
    co_await w->server.tag_send(78, v->closed.all().first(bytes));
    const TagReceived answered = co_await back;
    CHECK(answered.bytes == bytes);
  }
}

task<> until_closed(stage& s, const Endpoint& e) {
  while (e.state() != endpoint_state::closed) co_await moment(s);
}

// ---- actions of the rogue ----

struct attack {
  const char* name;
  errc expected;
  const char* says;  // expected part of the cause; null: any cause
  task<> (*act)(rogue*);
  bool greets = true;
};

constexpr const char* not_announced = "it wants what was not announced";
constexpr const char* cannot_be = "it wants what cannot be";
constexpr const char* not_asked_for = "bytes of a message that nobody asked for";
constexpr const char* not_written = "it wrote what nobody asked for";
constexpr const char* no_answer = "an answer to a message that was not announced";

const std::vector<attack>& wanting() {
  static const std::vector<attack> all{
      {"wants what was never offered", errc::connection_aborted, not_announced,
       [](rogue* r) -> task<> { co_await say_want(r, r->unreadable + 2, {.bytes = 10}); }},
      {"wants what it may read", errc::connection_aborted, not_announced,
       [](rogue* r) -> task<> { co_await say_want(r, r->readable, {.bytes = 10}); }},
      {"wants the same twice", errc::connection_aborted, cannot_be,
       [](rogue* r) -> task<> {
         co_await say_want(r, r->unreadable, {.bytes = 1000});
         co_await say_want(r, r->unreadable, {.bytes = 1000});
       }},
      {"wants more than there is", errc::connection_aborted, cannot_be,
       [](rogue* r) -> task<> { co_await say_want(r, r->unreadable, {.bytes = long_bytes + 1}); }},
      {"wants nothing", errc::connection_aborted, cannot_be,
       [](rogue* r) -> task<> {
         const protocol::want nothing;
         co_await say_want(r, r->unreadable, nothing);
       }},
      {"wants it sent, then written", errc::connection_aborted, cannot_be,
       [](rogue* r) -> task<> {
         co_await say_want(r, r->unreadable, {.bytes = 1000});
         co_await say_want(r, r->unreadable, {.bytes = 2000, .addr = 8, .rkey = nobodys_key});
       }},
      {"wants it written to nobody's memory", errc::remote_access, nullptr,
       [](rogue* r) -> task<> {
         const protocol::want what{.bytes = long_bytes, .addr = 4096, .rkey = nobodys_key};
         co_await say_want(r, r->unreadable, what);
       }},
      {"answers what was not offered", errc::connection_aborted, no_answer,
       [](rogue* r) -> task<> { co_await say_done(r, r->unreadable + 2); }},
      {"answers twice", errc::connection_aborted, no_answer,
       [](rogue* r) -> task<> {
         co_await say_done(r, r->unreadable);
         co_await say_done(r, r->unreadable);
       }},
      {"answers with an outcome that is none", errc::connection_aborted, "is unknown",
       [](rogue* r) -> task<> {
         const std::uint64_t word = r->unreadable | std::uint64_t{9} << 32;
         co_await say(r, {.kind = frame_kind::done, .given = credits, .word = word});
       }},
  };
  return all;
}

const std::vector<attack>& bringing() {
  static const std::vector<attack> all{
      {"sends a part of nothing", errc::connection_aborted, not_asked_for,
       [](rogue* r) -> task<> { co_await say_part(r, 99, 10); }},
      {"sends a part before it is wanted", errc::connection_aborted, not_asked_for,
       [](rogue* r) -> task<> {
         co_await say_offer(r, {.kind = frame_kind::tag_ready, .word = unwanted}, 7, long_bytes);
         co_await say_part(r, 7, 10);
       }},
      {"sends a part of no bytes", errc::connection_aborted, not_asked_for,
       [](rogue* r) -> task<> {
         co_await begin_parts(r);
         co_await say_part(r, 7, 0);
       }},
      {"sends more parts than it offered", errc::connection_aborted, not_asked_for,
       [](rogue* r) -> task<> {
         co_await begin_parts(r);
         for (int i = 0; i < 3; ++i) co_await say_part(r, 7, 8000);
       }},
      {"sends a part after the last one", errc::connection_aborted, not_asked_for,
       [](rogue* r) -> task<> {
         co_await begin_parts(r);
         for (int i = 0; i < 2; ++i) co_await say_part(r, 7, 8000);
         co_await say_part(r, 7, 4000);
         co_await until_heard(r, frame_kind::done);
         co_await say_part(r, 7, 1);
       }},
      {"says that it wrote what nobody wanted", errc::connection_aborted, not_written,
       [](rogue* r) -> task<> { co_await say_wrote(r, 7); }},
      {"says that it wrote what is to be sent", errc::connection_aborted, not_written,
       [](rogue* r) -> task<> {
         co_await begin_parts(r);
         co_await say_wrote(r, 7);
       }},
      {"gives more receives than it has", errc::connection_aborted, "more receives than it has",
       [](rogue* r) -> task<> {
         co_await say(r, {.kind = frame_kind::given, .given = credits + 100});
       }},
      {"sends more than it has credits for", errc::connection_aborted, "no credit for",
       [](rogue* r) -> task<> {
         const protocol::frame_head head{
             .kind = frame_kind::tag_eager, .given = credits, .word = unwanted};
         for (std::uint32_t i = 0; i <= credits; ++i) {
           co_await say(r, head, std::vector<std::byte>(100));
         }
       }},
      {"sends a header longer than its message", errc::connection_aborted,
       "a header longer than its message",
       [](rogue* r) -> task<> {
         const protocol::am_word word{.id = 1, .header = 16};
         const protocol::frame_head head{.kind = frame_kind::am_ready,
                                         .word = protocol::to_word(word)};
         co_await say_offer(r, head, 7, long_bytes);
       }},
      {"greets twice", errc::connection_aborted, "a second hello",
       [](rogue* r) -> task<> { co_await say_hello(r); }},
      {"does not greet", errc::connection_aborted, "its first frame is no hello",
       [](rogue* r) -> task<> { co_await say(r, {.kind = frame_kind::given, .given = credits}); },
       false},
      {"speaks another version", errc::unsupported_version, "version",
       [](rogue* r) -> task<> { co_await say_hello(r, protocol::frame_version + 1); }, false},
      {"goes away without a word", errc::ok, nullptr,
       [](rogue* r) -> task<> {
         for (int i = 0; i < 50; ++i) co_await moment(*r->on);
         r->endpoint->abort();
       },
       false},
  };
  return all;
}

task<> greet(rogue* r) {
  co_await say_hello(r);
  co_await until_heard(r, frame_kind::tag_ready, 2);
  for (const std::size_t nth : {0U, 1U}) {
    const heard_frame* const f = find(*r, frame_kind::tag_ready, nth);
    if (f == nullptr) co_return;
    const protocol::offer what = protocol::decode_offer(f->body).value();
    (what.parts == 0 ? r->unreadable : r->readable) = what.number;
  }
}

task<wire> connect_rogue(stage& on, Messages* server) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_options accept;
  accept.messages = server;
  const connect_options plain;
  wire w = co_await connect(on.client(), listener, on.reach(listener), plain, accept);
  co_return w;
}

void check_end(const Endpoint& e, const attack& a) {
  const failure* const cause = e.first_cause();
  REQUIRE(cause != nullptr);
  CHECK((a.expected == errc::ok || cause->code() == a.expected));
  if (a.says != nullptr) CHECK(cause->message().find(a.says) != std::string::npos);
}

task<> suffer(victim* v, const attack* a) {
  stage& on = *v->on;
  std::vector<waiter> waiters = every_waiter();
  {
    wire w = co_await connect_rogue(on, &v->messages);
    rogue r(on, w.client);
    task_context& me = co_await this_task();
    scope all(me);
    all.spawn(hear_all(&r));
    begin_waiting(*v, w.server, all, waiters);
    if (a->greets) co_await greet(&r);
    for (const waiter& one : waiters) CHECK(one.resumed <= 1);
    co_await a->act(&r);
    co_await until_closed(on, w.server);
    check_end(w.server, *a);
    w.client.abort();
    co_await all.join();
  }
  for (const waiter& one : waiters) {
    CAPTURE(std::string(one.what));
    CAPTURE(name(one.code));
    CHECK(one.resumed == 1);
  }
  // A message that waited for a credit cannot have been sent.
  CHECK(waiters.back().code == errc::flushed);
}

task<> be_attacked(stage& on, const std::vector<attack>* with) {
  victim v(on);
  wire good = co_await connect_messages(on, v.good, v.messages);
  waiter anybody{"a receive from anybody"};
  task_context& me = co_await this_task();
  scope patient(me);
  patient.spawn(wait_for(v.messages.tag_recv(by_anyone, v.into_any), &anybody));
  co_await talk(&v, &good);
  for (const attack& a : *with) {
    CAPTURE(std::string(a.name));
    co_await suffer(&v, &a);
    CHECK(held_segments(v.messages) == 0);
    co_await talk(&v, &good);
  }
  CHECK(anybody.resumed == 0);
  co_await good.client.tag_send(by_anyone, v.theirs);
  co_await patient.join();
  CHECK(anybody.resumed == 1);
  CHECK(anybody.code == errc::ok);
}

task<> offer_too_many(rogue* r) {
  for (std::uint32_t n = 0; n <= protocol::most_offers; ++n) {
    const auto is_out = [r, n] {
      const std::uint16_t given = r->heard.empty() ? credits : r->heard.back().head.given;
      return given == static_cast<std::uint16_t>(n);
    };
    while (is_out() && r->endpoint->state() == endpoint_state::connected) co_await moment(*r->on);
    co_await say_offer(r, {.kind = frame_kind::tag_ready, .word = by_parts}, n, 16);
  }
}

// All of the offers are matched, and none of the messages ever arrives.
task<> be_offered_too_much(stage& on) {
  victim v(on);
  wire good = co_await connect_messages(on, v.good, v.messages);
  const attack a{"offers more than it may", errc::connection_aborted,
                 "more announced messages than it may", offer_too_many};
  std::vector<waiter> waiters(protocol::most_offers + 1, waiter{"a receive"});
  {
    wire w = co_await connect_rogue(on, &v.messages);
    rogue r(on, w.client);
    task_context& me = co_await this_task();
    scope all(me);
    all.spawn(hear_all(&r));
    for (waiter& one : waiters) {
      all.spawn(wait_for(w.server.tag_recv(by_parts, v.into.all().first(8)), &one));
    }
    co_await say_hello(&r);
    co_await a.act(&r);
    co_await until_closed(on, w.server);
    check_end(w.server, a);
    w.client.abort();
    co_await all.join();
  }
  for (const waiter& one : waiters) CHECK((one.resumed == 1 && one.code == errc::flushed));
  CHECK(held_segments(v.messages) == 0);
  co_await talk(&v, &good);
}

}  // namespace

TEST_CASE(
    "a peer that answers what was not said loses the connection, and costs nobody else anything") {
  stage s;
  s.play([](stage& on) -> task<> { co_await be_attacked(on, &wanting()); });
}

TEST_CASE(
    "a peer that brings what nobody wants loses the connection, and costs nobody else anything") {
  stage s;
  s.play([](stage& on) -> task<> { co_await be_attacked(on, &bringing()); });
}

TEST_CASE(
    "a peer that offers more than it may loses the connection, and costs nobody else anything") {
  stage s;
  s.play([](stage& on) -> task<> { co_await be_offered_too_much(on); });
}

namespace {

// An honest peer and a rogue side by side; the rogue has sent its greeting and receives frames.
struct encounter {
  victim* v;
  wire* good;
  wire* w;
  rogue* r;
};

// `act` is a function, or a lambda without captures.
template <class Act, class... Args>
task<> beside_rogue(stage& on, Act act, Args... args) {
  victim v(on);
  wire good = co_await connect_messages(on, v.good, v.messages);
  wire w = co_await connect_rogue(on, &v.messages);
  rogue r(on, w.client);
  task_context& me = co_await this_task();
  scope all(me);
  all.spawn(hear_all(&r));
  co_await say_hello(&r);
  const encounter met{&v, &good, &w, &r};
  co_await act(&met, args...);
  w.client.abort();
  co_await all.join();
}

// The credits allow four of them.
task<> send_a_thousand(const encounter* met) {
  victim& v = *met->v;
  std::vector<message_send_operation> sends;
  sends.reserve(1000);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    sends.push_back(met->w->server.tag_send(i, v.open.all().first(8)));
    sends.back().start();
  }
  co_await talk(&v, met->good);
  for (std::uint64_t i = 0; i < sends.size(); ++i) {
    if (i >= credits) sends[i].cancel();
    const result<void> end = co_await sends[i].result();
    CHECK(end.code() == (i < credits ? errc::ok : errc::canceled));
  }
}

}  // namespace

TEST_CASE("what a peer gives no credit for waits, can be canceled, and keeps nobody else waiting") {
  stage s;
  s.play([](stage& on) -> task<> { return beside_rogue(on, send_a_thousand); });
}

namespace {

using protocol::request_header;
using protocol::request_kind;

// Sends an active message with the id reserved for requests.
task<> say_request(rogue* r, request_header h, std::uint16_t given = credits) {
  h.given = credits;  // also the number of requests that it grants
  std::vector<std::byte> body(protocol::bytes_of(h));
  protocol::encode(h, body);
  const protocol::am_word word{.id = protocol::request_id_of_messages,
                               .header = static_cast<std::uint16_t>(body.size())};
  co_await say(r, {.kind = frame_kind::am_eager, .given = given, .word = protocol::to_word(word)},
               body);
}

std::vector<request_header> requests_heard(const rogue& r, request_kind what) {
  std::vector<request_header> all;
  for (const heard_frame& f : r.heard) {
    if (f.head.kind != frame_kind::am_eager) continue;
    const std::size_t bytes = protocol::am_of(f.head.word).header;
    const request_header h = protocol::decode_request(std::span(f.body).first(bytes)).value();
    if (h.kind == what) all.push_back(h);
  }
  return all;
}

task<> until_asked(rogue* r, request_kind what, std::size_t count) {
  while (requests_heard(*r, what).size() < count &&
         r->endpoint->state() == endpoint_state::connected) {
    co_await moment(*r->on);
  }
}

// Two calls are in flight, and no credit is left to withdraw them: their hello and a call used the
// others.
task<> miss_deadlines(const encounter* met, bool relents) {
  constexpr std::uint16_t method = 9;
  victim& v = *met->v;
  rogue& r = *met->r;
  Endpoint& to_rogue = met->w->server;
  Requests asks(v.messages, {.window = 3});
  co_await say_request(&r, {.kind = request_kind::hello});
  const Slice question = v.closed.all().first(8);
  // Once one call is answered the next ones do not wait: they are in flight before their deadline
  // can pass.
  call_operation unserved = asks.call(to_rogue, method, question).start();
  co_await until_asked(&r, request_kind::request, 1);
  request_header answer{.kind = request_kind::response,
                        .outcome = protocol::request_outcome::no_handler};
  answer.id = requests_heard(r, request_kind::request).front().id;
  co_await say_request(&r, answer);
  const result<Response> by_nobody = co_await unserved.result();
  CHECK(by_nobody.code() == errc::not_found);
  const call_options soon{.timeout = std::chrono::milliseconds(20)};
  call_operation no_room = asks.call(to_rogue, method, question, v.into, soon).start();
  call_operation writable = asks.call(to_rogue, method, question, v.open, soon).start();
  co_await until_asked(&r, request_kind::request, 3);
  const result<Response> in_time = co_await no_room.result();
  CHECK(in_time.code() == errc::timed_out);
  co_await sleep_for(std::chrono::milliseconds(100));
  const request_header last = requests_heard(r, request_kind::request).at(2);
  const bool may_be_written = (last.flags & protocol::request_flag::writable) != 0;
  CHECK(writable.done() == !may_be_written);
  CHECK(requests_heard(r, request_kind::cancel).empty());
  CHECK(to_rogue.state() == endpoint_state::connected);
  co_await talk(&v, met->good);
  if (relents) {
    constexpr std::uint16_t two_more = credits + 2;
    co_await say(&r, {.kind = frame_kind::given, .given = two_more});
    co_await until_asked(&r, request_kind::cancel, 2);
    for (const request_header& asked : requests_heard(r, request_kind::request)) {
      if (asked.id == answer.id) continue;
      request_header word{.kind = request_kind::response,
                          .outcome = protocol::request_outcome::canceled};
      word.id = asked.id;
      co_await say_request(&r, word, two_more);
    }
    const result<Response> end = co_await writable.result();
    CHECK(end.code() == errc::timed_out);
    CHECK(to_rogue.state() == endpoint_state::connected);
  } else {
    to_rogue.abort();
    const result<Response> end = co_await writable.result();
    CHECK(end.code() == (may_be_written ? errc::connection_reset : errc::timed_out));
  }
}

}  // namespace

TEST_CASE(
    "O4: a call whose peer gives no credit ends at its deadline; where the peer may write to its "
    "room, with the peer's word or the connection") {
  for (const bool relents : {true, false}) {
    CAPTURE(relents);
    stage s;
    s.play(
        [](stage& on, bool yields) -> task<> { return beside_rogue(on, miss_deadlines, yields); },
        relents);
  }
}

namespace {

// The rogue receives a request and never responds.
task<> keep_silent(const encounter* met, bool given_up) {
  victim& v = *met->v;
  rogue& r = *met->r;
  Endpoint& to_rogue = met->w->server;
  Requests asks(v.messages, {.window = 3});
  co_await say_request(&r, {.kind = request_kind::hello});
  const Slice question = v.closed.all().first(8);
  const call_options patience{.timeout = given_up ? duration::zero()
                                                  : duration(std::chrono::milliseconds(20))};
  std::optional<call_operation> asked;
  asked.emplace(asks.call(to_rogue, 9, question, v.into, patience)).start();
  co_await until_asked(&r, request_kind::request, 1);
  state_operation closing = to_rogue.close().start();
  if (given_up) {
    asked->cancel();
    co_await until_asked(&r, request_kind::cancel, 1);
    CHECK_FALSE(closing.done());
    asked.reset();
  }
  co_await closing;
  if (given_up) co_return;
  const result<Response> end = co_await asked->result();
  CHECK(end.code() == errc::timed_out);
}

// The request is still in flight when its deadline passes.
task<> ask_from_afar(const encounter* met) {
  victim& v = *met->v;
  Requests asks(v.messages, {.window = 3});
  co_await say_request(met->r, {.kind = request_kind::hello});
  const Slice question = v.closed.all().first(8);
  call_operation first = asks.call(met->w->server, 9, question).start();
  co_await until_asked(met->r, request_kind::request, 1);
  v.on->net().set_links({.delay = std::chrono::milliseconds(30)});
  const result<Response> end =
      co_await asks
          .call(met->w->server, 9, question, Slice(), {.timeout = std::chrono::milliseconds(20)})
          .result();
  CHECK(end.code() == errc::timed_out);
  v.on->net().set_links({});
  first.cancel();
}

}  // namespace

TEST_CASE("O4: a call whose time is over before it has left ends once it has, answered or not" *
          only_on(transport::kind::sim, "how long a message takes is chosen there")) {
  stage s;
  s.play([](stage& on) -> task<> { return beside_rogue(on, ask_from_afar); });
}

TEST_CASE("closing waits no longer than a call does, whose peer never answers") {
  for (const bool given_up : {false, true}) {
    CAPTURE(given_up);
    stage s;
    s.play(
        [](stage& on, bool destroys) -> task<> { return beside_rogue(on, keep_silent, destroys); },
        given_up);
  }
}
