// Requests (O4, and errors): withdrawal, deadlines, connections that end, peers that break the
// rules.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/request_service.hpp>
#include <support/stage.hpp>

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/stop.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t long_bytes = 200'000;  // neither sent with its header nor copied

}  // namespace

// ---- O4 ----

TEST_CASE("O4: 13 calls, and then nothing: all of them resolve") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = client_memory(s, 8 * 13);
        std::deque<call_operation> all;
        for (std::size_t i = 0; i < 13; ++i) {
          all.push_back(
              at->asks.call(w->client, echo_method, from, into.all().part(8 * i, 8)).start());
        }
        for (call_operation& one : all) co_await one;
        std::deque<notify_operation> words;
        for (int i = 0; i < 13; ++i) {
          words.push_back(at->asks.notify(w->client, gated_method, from).start());
        }
        for (notify_operation& one : words) co_await one;
        at->gate.set();
        co_await until_handled(*at, 26);
      },
      &p);
}

TEST_CASE("O4: a call that is canceled ends canceled or with its answer, as the peer says") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = client_memory(s, 8);
        const request_counters& there = at->answers.counters();
        std::uint64_t canceled = 0;
        std::uint64_t answered = 0;
        const std::uint64_t rounds = rounds_under_test(2000);
        dice d(3);
        for (std::uint64_t i = 0; i < rounds; ++i) {
          call_operation op = at->asks.call(w->client, keep_method, from, into).start();
          co_await until_kept(*at, 1);
          const std::size_t before = d.below(4);
          for (std::size_t n = 0; n < before; ++n) co_await moment(s);
          op.cancel();
          const std::size_t then = d.below(4);
          for (std::size_t n = 0; n < then; ++n) co_await moment(s);
          const result<void> said = co_await at->kept[0]->respond(at->room).result();
          CHECK(said.code() == (at->kept[0]->unwanted() ? errc::canceled : errc::ok));
          const result<Response> got = co_await op.result();
          CHECK((got.ok() || got.code() == errc::canceled));
          CHECK(got.ok() == said.ok());
          ++(got.ok() ? answered : canceled);
          at->kept.clear();
        }
        // Messages in flight arrive.
        co_await for_a_while(s);
        CHECK(canceled == there.withdrawn);
        CHECK(answered == there.withdrawn_late + there.withdrawn_unknown);
        CHECK(canceled != 0);
        CHECK(answered != 0);
      },
      &p);
}

TEST_CASE("O4: room of a call that was withdrawn is not written to any more") {
  stage on;
  service p(on);
  serve(p, 200'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 50'000);
        const MemoryRegion into = client_memory(s, 200'000);
        call_operation op = at->asks.call(w->client, keep_method, from, into).start();
        co_await until_kept(*at, 1);
        event::wait_operation told = at->kept[0]->until_unwanted().start();
        op.cancel();
        const result<Response> got = co_await op.result();
        CHECK(got.code() == errc::canceled);
        std::ranges::fill(into.bytes(), std::byte{0});
        co_await told;
        fill(at->room.bytes(), 1);
        const auto unread = co_await at->kept[0]->read(at->room).result();
        CHECK(unread.code() == errc::canceled);
        const auto unsaid = co_await at->kept[0]->respond(at->room).result();
        CHECK(unsaid.code() == errc::canceled);
        co_await for_a_while(s);
        CHECK(all_zero(into.bytes()));
        at->kept.clear();
        // Destroyed in flight: the result is the same, and the memory is kept until the peer's
        // notification.
        { call_operation gone = at->asks.call(w->client, keep_method, from, into).start(); }
        co_await for_a_while(s);
        at->kept.clear();
        const Response still = co_await at->asks.call(w->client, echo_method, from, into);
        CHECK(still.bytes == 50'000);
      },
      &p);
}

namespace {

task<Response> ask(service* p, Endpoint* to, std::uint16_t method, Slice from, Slice into) {
  const Response got = co_await p->asks.call(*to, method, from, into);
  co_return got;
}

task<> stop_later(service* p, std::stop_source* stop) {
  co_await until_kept(*p, 1);
  stop->request_stop();
}

task<> keep_one(std::unique_ptr<Request>* at, Request r) {
  *at = std::make_unique<Request>(std::move(r));
  co_return;
}

}  // namespace

TEST_CASE("O4: Requests go while a call and an answer are on their way that nobody waits for") {
  stage on;
  on.play([](stage& s) -> task<> {
    constexpr std::size_t along = 4000;  // bytes: sent directly from the program's memory
    Messages client(s.client(), roomy);
    Messages server(s.server(), roomy);
    auto asks = std::make_unique<Requests>(client);
    auto answers = std::make_unique<Requests>(server);
    std::unique_ptr<Request> kept;
    answers->serve(1, [at = &kept](Request r) { return keep_one(at, std::move(r)); });
    wire w = co_await connect_messages(s, client, server);
    const MemoryRegion room = client_memory(s, along);
    call_operation asked = asks->call(w.client, 1, room.all().first(8), room).start();
    while (kept == nullptr) co_await moment(s);
    {
      const MemoryRegion from = server_memory(s, along);
      const respond_operation gone = kept->respond(from).start();
    }
    {
      const MemoryRegion from = client_memory(s, along);
      const call_operation gone = asks->call(w.client, 1, from).start();
    }
    kept.reset();
    answers.reset();
    asks.reset();
    const result<Response> end = co_await asked.result();
    CHECK((end || end.code() == errc::connection_reset || end.code() == errc::shutdown));
  });
}

namespace {

// Responds from the handler's memory; the other handler calls back with such memory.
task<> answer_from_own(stage* s, event* begun, Request r) {
  const MemoryRegion own = server_memory(*s, long_bytes);
  begun->set();
  co_await r.respond(own);
}
task<> ask_with_own(stage* s, event* begun, Requests* back, Request r) {
  const MemoryRegion own = server_memory(*s, long_bytes);
  begun->set();
  co_await back->call(*r.from(), 3, own, own);
}

}  // namespace

TEST_CASE("O4: Requests go while handlers answer, and ask, from memory that goes with them") {
  for (const transport::access rights : {transport::access::local_write, every_right}) {
    for (const std::uint16_t method : {std::uint16_t{1}, std::uint16_t{2}}) {
      CAPTURE(method);
      stage on;
      on.play(
          [](stage& s, transport::access of_room, std::uint16_t asked_for) -> task<> {
            Messages client(s.client(), roomy);
            Messages server(s.server(), roomy);
            Requests asks(client);
            auto answers = std::make_unique<Requests>(server);
            asks.serve(3, [](Request r) -> task<> { co_await r.until_unwanted(); });
            event begun;
            answers->serve(
                1, [&s, at = &begun](Request r) { return answer_from_own(&s, at, std::move(r)); });
            answers->serve(2, [&s, at = &begun, back = answers.get()](Request r) {
              return ask_with_own(&s, at, back, std::move(r));
            });
            wire w = co_await connect_messages(s, client, server);
            const MemoryRegion from = client_memory(s, 8);
            const MemoryRegion room = client_memory(s, long_bytes, of_room);
            call_operation asked = asks.call(w.client, asked_for, from, room).start();
            co_await begun.wait();
            answers.reset();
            const result<Response> end = co_await asked.result();
            CHECK((end || end.code() == errc::connection_reset));
            CHECK(w.server.first_cause()->code() == errc::shutdown);
          },
          rights, method);
    }
  }
}

TEST_CASE("O4: a stop token withdraws a call") {
  stage on;
  service p(on);
  serve(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        std::stop_source stop;
        task_context& me = co_await this_task();
        scope beside(me);
        beside.spawn(stop_later(at, &stop));
        errc code = errc::ok;
        try {
          co_await with_stop(stop.get_token(),
                             ask(at, &w->client, keep_method, from.all(), from.all()));
        } catch (const error& e) {
          code = e.why().code();
        }
        CHECK(code == errc::canceled);
        CHECK(at->kept[0]->unwanted());
        co_await beside.join();
      },
      &p);
}

TEST_CASE("O4: a deadline ends the call, and its request at the peer") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        for (const transport::access rights : {transport::access::local_write, every_right}) {
          const MemoryRegion own = client_memory(s, 8, rights);
          const MemoryRegion request = client_memory(s, 8);
          // On a busy machine the deadline may pass before the handler has the request: retry with
          // a longer one.
          std::optional<call_operation> asked;
          call_options soon{.timeout = std::chrono::milliseconds(5)};
          while (at->kept.empty()) {
            asked.emplace(at->asks.call(w->client, keep_method, request, own, soon)).start();
            while (at->kept.empty() && !asked->done()) co_await moment(s);
            soon.timeout *= 2;
          }
          CHECK(at->kept[0]->deadline() != never);
          call_operation& op = *asked;
          const result<Response> got = co_await op.result();
          CHECK(got.code() == errc::timed_out);
          while (!at->kept[0]->unwanted()) co_await moment(s);
          const auto said = co_await at->kept[0]->respond(at->room).result();
          CHECK((said.code() == errc::timed_out || said.code() == errc::canceled));
          at->kept.clear();
        }
        // A call with a distant deadline is answered in time.
        const MemoryRegion request = client_memory(s, 8);
        const call_options late{.timeout = std::chrono::seconds(100)};
        const Response in_time =
            co_await at->asks.call(w->client, echo_method, request, request, late);
        CHECK(in_time.bytes == 8);
      },
      &p);
}

// ---- errors ----

TEST_CASE("the end of a connection ends its calls: flushed before they went, reset after") {
  stage on;
  service p(on, roomy, {}, {.window = 2});
  serve(p, 200'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 50'000);
        const MemoryRegion into = client_memory(s, 200'000);
        std::deque<call_operation> all;
        for (int i = 0; i < 4; ++i) {
          all.push_back(at->asks.call(w->client, keep_method, from, into).start());
        }
        co_await until_kept(*at, 2);
        respond_operation cut = at->kept[0]->respond(at->room).start();
        w->server.abort();
        for (int i = 0; i < 4; ++i) {
          const result<Response> got = co_await all[static_cast<std::size_t>(i)].result();
          if (i != 0 || !got.ok()) {
            CHECK(got.code() == (i < 2 ? errc::connection_reset : errc::flushed));
          }
        }
        const auto was_cut = co_await cut.result();
        CHECK((was_cut.ok() || was_cut.code() == errc::connection_reset));
        CHECK(at->kept[1]->unwanted());
        const auto unsaid = co_await at->kept[1]->respond(at->room).result();
        CHECK(unsaid.code() == errc::connection_reset);
        const auto unread = co_await at->kept[1]->read(at->room).result();
        CHECK_FALSE(unread.ok());
        const auto late = co_await at->asks.call(w->client, keep_method, from, into).result();
        CHECK(late.code() == errc::flushed);
        at->kept.clear();
        // Other connections are not affected.
        wire* const other = co_await join(*at);
        const Response got = co_await at->asks.call(other->client, echo_method, from, into);
        CHECK(got.bytes == 50'000);
      },
      &p);
}

TEST_CASE("the Requests may go first: what waits on either side ends") {
  stage on;
  std::optional<service> p;
  p.emplace(on);
  Messages lone(on.client());
  on.play(
      [](stage& s, service* at) -> task<> {
        auto asks = std::make_unique<Messages>(s.client(), roomy);
        auto asking = std::make_unique<Requests>(*asks);
        serve(*at, 8);
        wire w = co_await connect_messages(s, *asks, at->server);
        const MemoryRegion memory = client_memory(s, 8);
        call_operation op = asking->call(w.client, keep_method, memory, memory).start();
        co_await until_kept(*at, 1);
        asking.reset();
        const result<Response> got = co_await op.result();
        CHECK(got.code() == errc::connection_reset);
        CHECK(got.why().first_cause().code() == errc::shutdown);
        CHECK(w.client.state() == endpoint_state::closed);
        CHECK(w.client.first_cause()->code() == errc::shutdown);
        while (!at->kept[0]->unwanted()) co_await moment(s);
        at->kept.clear();
      },
      &*p);
}

TEST_CASE("a peer without Requests is told of, in time") {
  stage on;
  Messages client(on.client());
  Messages server(on.server());
  Requests asks(client, {.hello_timeout = std::chrono::milliseconds(20)});
  on.play(
      [](stage& s, Messages* mine, Messages* theirs, Requests* by) -> task<> {
        wire w = co_await connect_messages(s, *mine, *theirs);
        const MemoryRegion memory = client_memory(s, 8);
        const auto got = co_await by->call(w.client, 1, memory, memory).result();
        CHECK(got.code() == errc::not_supported);
        wire plain = co_await connect(s);
        const auto none = co_await by->call(plain.client, 1, memory, memory).result();
        CHECK(none.code() == errc::not_supported);
        const auto other = co_await by->call(w.server, 1, memory, memory).result();
        CHECK(other.code() == errc::invalid_value);
      },
      &client, &server, &asks);
}

TEST_CASE(
    "Requests may be made after the peer has called: then it is answered, and calls go both ways") {
  for (const bool too_late : {false, true}) {
    CAPTURE(too_late);
    stage on;
    on.play(
        [](stage& s, bool silence_first) -> task<> {
          Messages mine(s.client());
          Messages theirs(s.server());
          const duration patience =
              silence_first ? duration(std::chrono::milliseconds(20)) : std::chrono::seconds(10);
          Requests asks(mine, {.hello_timeout = patience});
          asks.serve(1, [](Request r) -> task<> { co_await r.respond(); });
          wire w = co_await connect_messages(s, mine, theirs);
          const MemoryRegion memory = client_memory(s, 8);
          call_operation early = asks.call(w.client, 1, memory).start();
          if (silence_first) {
            const result<Response> unheard = co_await early.result();
            CHECK(unheard.code() == errc::not_supported);
          } else {
            co_await for_a_while(s);
            CHECK_FALSE(early.done());
          }
          CHECK(theirs.dropped() == 0);
          Requests answers(theirs);
          answers.serve(1, [](Request r) -> task<> { co_await r.respond(); });
          if (!silence_first) co_await early;
          for (int i = 0; i < 3; ++i) {
            co_await asks.call(w.client, 1, memory);
            co_await answers.call(w.server, 1, Slice());
          }
          CHECK(w.client.state() == endpoint_state::connected);
        },
        too_late);
  }
}

TEST_CASE(
    "a redirect to nowhere, or to an address that is too long, is refused, and answers nothing") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        call_operation asked = at->asks.call(w->client, keep_method, from, from).start();
        co_await until_kept(*at, 1);
        const std::string too_long(129, 'x');
        for (const std::string_view address : {std::string_view(), std::string_view(too_long)}) {
          const result<void> refused = co_await at->kept[0]->redirect(address).result();
          CHECK(refused.code() == errc::invalid_value);
        }
        const std::string longest(128, 'y');
        const result<void> said = co_await at->kept[0]->redirect(longest).result();
        CHECK(said.ok());
        const result<Response> sent_on = co_await asked.result();
        CHECK(sent_on.code() == errc::rejected);
        CHECK(asked.redirected_to() == longest);
        at->kept.clear();
      },
      &p);
}

TEST_CASE("O4: the handler is told of a deadline by its own clock, though no word of it comes" *
          only_on(transport::kind::sim, "whose hosts are cut off from each other at will")) {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        constexpr duration patience = std::chrono::milliseconds(50);
        const MemoryRegion from = client_memory(s, 8);
        call_operation asked =
            at->asks.call(w->client, keep_method, from, from, {.timeout = patience}).start();
        co_await until_kept(*at, 1);
        const time_point arrived = s.loop().now();
        s.net().partition("client", "server");
        co_await at->kept[0]->until_unwanted();
        CHECK(s.loop().now() - arrived <= patience);
        CHECK(w->server.state() == endpoint_state::connected);
        const result<void> late = co_await at->kept[0]->respond(at->room).result();
        CHECK(late.code() == errc::timed_out);
        s.net().heal_all();
        const result<Response> got = co_await asked.result();
        CHECK(got.code() == errc::timed_out);
        at->kept.clear();
      },
      &p);
}

TEST_CASE("what cannot be is refused: options, ids that are the library's, second Requests") {
  stage on;
  Messages m(on.client(), {.credits = 8});
  const auto refusal = [&](request_options o) {
    try {
      const Requests r(m, o);
    } catch (const error& e) {
      return e.why().code();
    }
    return errc::ok;
  };
  CHECK(refusal({.window = 0}) == errc::invalid_value);
  CHECK(refusal({.window = 8}) == errc::invalid_value);
  CHECK(refusal({.window = 7, .most_calls = 0}) == errc::invalid_value);
  CHECK(refusal({.window = 7, .most_bytes = 0}) == errc::invalid_value);
  CHECK(refusal({.window = 7, .hello_timeout = duration::zero()}) == errc::invalid_value);
  CHECK(refusal({.window = 7}) == errc::ok);
  const Requests first(m, {.window = 1});
  CHECK(refusal({.window = 1}) == errc::in_use);
  CHECK_THROWS_AS(m.on(0xFF00, [](ActiveMessage) -> task<> { co_return; }), error);
  m.on(0xFEFF, [](ActiveMessage) -> task<> { co_return; });
}

namespace {

using header = protocol::request_header;
using kind = protocol::request_kind;

std::vector<std::byte> encoded(const header& h) {
  std::vector<std::byte> out(protocol::bytes_of(h));
  protocol::encode(h, out);
  return out;
}

// Sends the messages of a hostile peer one after the other. Returns the connection's first cause,
// or ok.
task<errc> say_all(stage& s, service& p, std::vector<std::vector<std::byte>> words,
                   std::size_t data) {
  Messages hostile(s.client(), roomy);
  wire w = co_await connect_messages(s, hostile, p.server);
  const MemoryRegion memory = client_memory(s, data + 1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Slice behind = memory.all().first(i + 1 == words.size() ? data : 0);
    const protocol::am_word word{.id = protocol::request_id_of_messages,
                                 .header = static_cast<std::uint16_t>(words[i].size())};
    message_send_operation said(w.client.core(), protocol::frame_kind::am_eager,
                                protocol::to_word(word), std::span(&behind, 1));
    said.set_header(words[i]);
    const result<void> sent = co_await said.result();
    static_cast<void>(sent.ok());
  }
  for (int i = 0; i < 1000 && w.server.state() == endpoint_state::connected; ++i) {
    co_await moment(s);
  }
  const failure* const cause = w.server.first_cause();
  co_return cause != nullptr ? cause->code() : errc::ok;
}

}  // namespace

TEST_CASE("whoever breaks the protocol loses the connection, and costs nobody else anything") {
  stage on;
  service p(on, roomy, {}, {.window = 2});
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        const header hello{.kind = kind::hello, .given = 4};
        const header ask{.kind = kind::request, .given = 4, .method = keep_method, .id = 1};
        std::vector<std::byte> version = encoded(hello);
        version[0] = std::byte{9};
        std::vector<std::byte> unknown = encoded(hello);
        unknown[1] = std::byte{77};
        header wraps = ask;
        wraps.flags = protocol::request_flag::writable;
        wraps.room_addr = ~std::uint64_t{0};
        wraps.room_bytes = 2;
        header too_much = hello;
        too_much.given = 0xFFFF;
        header answer{.kind = kind::response, .given = 4, .id = 1};
        header far_given{.kind = kind::given, .given = 100};
        const auto cut = [](const header& h) {
          std::vector<std::byte> all = encoded(h);
          all.pop_back();
          return all;
        };
        struct row {
          std::vector<std::vector<std::byte>> words;
          std::size_t data;
          errc expected;
        };
        const std::vector<row> rows{
            {{encoded(hello), encoded(ask)}, 8, errc::ok},
            {{version}, 0, errc::unsupported_version},
            {{unknown}, 0, errc::connection_aborted},
            {{{}}, 0, errc::connection_aborted},
            {{encoded(ask)}, 0, errc::connection_aborted},
            {{encoded(hello), encoded(hello)}, 0, errc::connection_aborted},
            {{encoded(too_much)}, 0, errc::connection_aborted},
            {{encoded(hello)}, 8, errc::connection_aborted},
            {{encoded(hello), cut(ask)}, 0, errc::connection_aborted},
            {{encoded(hello), encoded(wraps)}, 0, errc::connection_aborted},
            {{encoded(hello), encoded(answer)}, 0, errc::connection_aborted},
            {{encoded(hello), encoded(far_given)}, 0, errc::connection_aborted},
            {{encoded(hello), encoded({.kind = kind::cancel, .given = 4, .id = 9})}, 0, errc::ok},
            {{encoded(hello), encoded(ask), encoded(ask), encoded(ask)},
             0,
             errc::connection_aborted},
        };
        wire* const good = co_await join(*at);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          CAPTURE(i);
          const errc became = co_await say_all(s, *at, rows[i].words, rows[i].data);
          CHECK(became == rows[i].expected);
          at->kept.clear();
        }
        const MemoryRegion memory = client_memory(s, 8);
        const Response got = co_await at->asks.call(good->client, echo_method, memory, memory);
        CHECK(got.bytes == 8);
      },
      &p);
}
