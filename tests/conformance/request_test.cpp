// Requests (O1 to O4): answers in any order, which way bytes go, windows, withdrawal, and what goes wrong.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/stop.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using sizes = std::initializer_list<std::size_t>;

// With room for requests of 8192 bytes beside their header.
constexpr message_options roomy{.eager_bytes = 16'384};

struct service {
  explicit service(stage& s, message_options m = roomy, request_options o = {},
                   request_options of_server = {})
      : on(&s),
        client(s.client(), m),
        server(s.server(), m),
        asks(client, o),
        answers(server, of_server) {}
  stage* on;
  Messages client;
  Messages server;
  Requests asks;
  Requests answers;
  std::deque<wire> wires;
  MemoryRegion room;  // of the server's
  std::vector<std::unique_ptr<Request>> kept;
  int handled = 0;
  int running = 0;
  int most_running = 0;
  event gate;
};

task<wire*> join(service& p) {
  stage& on = *p.on;
  Listener listener = on.server().listen(on.server_address()).value();
  connect_options to;
  to.messages = &p.client;
  connect_options from;
  from.messages = &p.server;
  wire w = co_await connect(on.client(), listener, on.reach(listener), to, from);
  p.wires.push_back(std::move(w));
  co_return &p.wires.back();
}

// ---- handlers ----

constexpr std::uint16_t echo_method = 1;
constexpr std::uint16_t keep_method = 2;
constexpr std::uint16_t gated_method = 3;
constexpr std::uint16_t length_method = 4;

// Says back what it was asked.
task<> echo(service* p, Request r) {
  if (r.data().size() == r.size()) {
    std::ranges::copy(r.data(), p->room.data());
  } else {
    co_await r.read(p->room.all());
  }
  co_await r.respond(p->room.all().first(r.size()));
  ++p->handled;
}

task<> keep(service* p, Request r) {
  p->kept.push_back(std::make_unique<Request>(std::move(r)));
  co_return;
}

// Ends when the gate is open.
task<> wait_at_gate(service* p, Request) {
  p->most_running = std::max(p->most_running, ++p->running);
  co_await p->gate.wait();
  --p->running;
  ++p->handled;
}

// As many bytes as the request says.
task<> answer_length(service* p, Request r) {
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, r.data().data(), sizeof(wanted));
  fill(p->room.bytes().first(wanted), wanted);
  const result<void> done = co_await r.respond(p->room.all().first(wanted)).result();
  CHECK(done.code() == (wanted > r.room() ? errc::truncated : errc::ok));
  const result<void> again = co_await r.respond().result();
  CHECK(again.code() == errc::bad_state);
  ++p->handled;
}

void serve(service& p, std::size_t room = 0) {
  if (room != 0) p.room = server_memory(*p.on, room);
  service* const at = &p;
  p.answers.serve(echo_method, [at](Request r) { return echo(at, std::move(r)); });
  p.answers.serve(keep_method, [at](Request r) { return keep(at, std::move(r)); });
  p.answers.serve(gated_method, [at](Request r) { return wait_at_gate(at, std::move(r)); });
  p.answers.serve(length_method, [at](Request r) { return answer_length(at, std::move(r)); });
}

task<> until_handled(service& p, int count) {
  while (p.handled < count) co_await moment(*p.on);
}

task<> until_kept(service& p, std::size_t count) {
  while (p.kept.size() < count) co_await moment(*p.on);
}

task<> for_a_while(stage& s) {
  for (int i = 0; i < 500; ++i) co_await moment(s);
}

}  // namespace

// ---- O1 ----

TEST_CASE("O1: a call of every size gets its answer, whatever the memory grants") {
  stage on;
  service p(on);
  serve(p, 300'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 300'000);
        const MemoryRegion writable = client_memory(s, 300'000);
        const MemoryRegion own = client_memory(s, 300'000, access::local_write);
        for (const std::size_t bytes : sizes{0, 1, 100, 8191, 8192, 8193, 300'000}) {
          CAPTURE(bytes);
          for (const MemoryRegion& into : {writable, own}) {
            fill(from.bytes().first(bytes), bytes);
            std::ranges::fill(into.bytes(), std::byte{0});
            const Response got = co_await at->asks.call(
                w->client, echo_method, from.all().first(bytes), into.all().first(bytes));
            CHECK(got.bytes == bytes);
            CHECK(got.written == (bytes > 8192 && into.data() == writable.data()));
            CHECK(filled(into.bytes().first(bytes), bytes));
            CHECK(all_zero(into.bytes().subspan(bytes)));
          }
        }
        CHECK(at->answers.counters().handler_failures == 0);
      },
      &p);
}

namespace {

// Answers what is kept, in an order of chance: to n comes 3 n + 1.
task<> answer_kept(service* p, std::uint64_t count) {
  dice d(7);
  for (std::uint64_t answered = 0; answered < count;) {
    if (p->kept.empty()) {
      co_await moment(*p->on);
      continue;
    }
    std::swap(p->kept[d.below(p->kept.size())], p->kept.back());
    const std::unique_ptr<Request> one = std::move(p->kept.back());
    p->kept.pop_back();
    std::uint64_t asked = 0;
    std::memcpy(&asked, one->data().data(), sizeof(asked));
    p->room.as<std::uint64_t>()[0] = 3 * asked + 1;
    co_await one->respond(p->room.all().first(8));
    ++answered;
  }
}

}  // namespace

TEST_CASE("O1: calls over 8 connections, answered out of order, each get their own") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        for (int i = 0; i < 8; ++i) co_await join(*at);
        const std::uint64_t calls = rounds_under_test(100'000, 3000);
        const MemoryRegion asked = client_memory(s, 8 * calls);
        const MemoryRegion got = client_memory(s, 8 * calls);
        task_context& me = co_await this_task();
        scope server(me);
        server.spawn(answer_kept(at, calls));
        std::deque<call_operation> all;
        for (std::uint64_t n = 0; n < calls; ++n) {
          asked.as<std::uint64_t>()[n] = n;
          all.push_back(at->asks.call(at->wires[n % 8].client, keep_method,
                                      asked.all().part(8 * n, 8), got.all().part(8 * n, 8)));
          all.back().start();
        }
        for (call_operation& one : all) co_await one;
        co_await server.join();
        std::uint64_t wrong = 0;
        for (std::uint64_t n = 0; n < calls; ++n) {
          wrong += got.as<std::uint64_t>()[n] != 3 * n + 1 ? 1U : 0U;
        }
        CHECK(wrong == 0);
      },
      &p);
}

TEST_CASE("O1: a word is done when it is sent, a receipt comes only when the handler has ended") {
  stage on;
  service p(on);
  serve(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 100);
        co_await at->asks.notify(w->client, gated_method, from);
        CHECK(at->handled == 0);
        notify_operation acked = at->asks.notify_acked(w->client, gated_method, from).start();
        while (at->running < 2) co_await moment(s);
        co_await for_a_while(s);
        CHECK_FALSE(acked.done());
        at->gate.set();
        co_await acked;
        CHECK(at->handled == 2);
      },
      &p);
}

TEST_CASE("O1: what has no handler, whose handler throws or forgets: typed, and the rest goes on") {
  stage on;
  service p(on);
  serve(p, 100);
  p.answers.serve(10, [](Request) -> task<> {
    throw std::runtime_error("no");
    co_return;
  });
  p.answers.serve(11, [](Request) -> task<> { co_return; });
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        Endpoint& to = w->client;
        for (const std::size_t bytes : sizes{8, 50'000}) {
          const MemoryRegion from = client_memory(s, bytes);
          for (int i = 0; i < 30; ++i) {
            const auto unserved = co_await at->asks.call(to, 99, from).result();
            CHECK(unserved.code() == errc::not_found);
            const auto threw = co_await at->asks.call(to, 10, from).result();
            CHECK(threw.code() == errc::rejected);
            const auto forgot = co_await at->asks.call(to, 11, from).result();
            CHECK(forgot.code() == errc::rejected);
            const auto acked = co_await at->asks.notify_acked(to, 10, from).result();
            CHECK(acked.code() == errc::rejected);
            const auto unknown = co_await at->asks.notify_acked(to, 99, from).result();
            CHECK(unknown.code() == errc::not_found);
          }
          CHECK(at->answers.counters().handler_failures == (bytes == 8 ? 60 : 120));
        }
        const MemoryRegion from = client_memory(s, 8);
        const Response still = co_await at->asks.call(to, echo_method, from, from);
        CHECK(still.bytes == 8);
      },
      &p);
}

// ---- O2 ----

TEST_CASE("O2: which way bytes go, by their size and as it is forced") {
  struct row {
    std::size_t bytes;
    bool force;
    bool request_read;
    bool response_written;
  };
  for (const row r :
       {row{0, false, false, false}, row{0, true, false, false}, row{1, false, false, false},
        row{1, true, true, true}, row{8191, false, false, false}, row{8192, false, false, false},
        row{8192, true, true, true}, row{8193, false, true, true},
        row{100'000, false, true, true}}) {
    CAPTURE(r.bytes);
    CAPTURE(r.force);
    stage on;
    service p(on, roomy, {.force_read = r.force}, {.force_write = r.force});
    serve(p, 100'000);
    on.play(
        [](stage& s, service* at, row expected) -> task<> {
          wire* const w = co_await join(*at);
          const MemoryRegion from = client_memory(s, 100'000);
          const std::size_t n = expected.bytes;
          co_await at->asks.call(w->client, echo_method, from.all().first(n), from.all().first(n));
          const request_counters& there = at->answers.counters();
          CHECK(there.requests_read == (expected.request_read ? 1 : 0));
          CHECK(there.requests_along == (expected.request_read ? 0 : 1));
          const request_counters& here = at->asks.counters();
          CHECK(here.responses_written == (expected.response_written ? 1 : 0));
          CHECK(here.responses_along == (expected.response_written ? 0 : 1));
          // Where the room cannot be written to, a long response is read from there.
          const MemoryRegion own = client_memory(s, 100'000, access::local_write);
          co_await at->asks.call(w->client, echo_method, from.all().first(n), own.all().first(n));
          CHECK(here.responses_written == (expected.response_written ? 1 : 0));
          CHECK(here.responses_read == (n > 8192 ? 1 : 0));
        },
        &p, r);
  }
}

TEST_CASE("O2: messages shorter than inline_max are held to: what does not fit them is read") {
  stage on;
  service p(on, {.eager_bytes = 1024});
  serve(p, 8192);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 3000);
        for (std::size_t n = 900; n < 1024; n += 4) {
          CAPTURE(n);
          fill(from.bytes().first(n), n);
          const Response got = co_await at->asks.call(w->client, echo_method, from.all().first(n),
                                                      from.all().part(1000, n));
          CHECK(got.bytes == n);
        }
        const request_counters& there = at->answers.counters();
        CHECK(there.requests_along == (1024 - 16 - 48 - 900) / 4 + 1);
      },
      &p);
}

TEST_CASE("O2: a response longer than its room is an error on both sides, and of nothing else") {
  stage on;
  service p(on);
  serve(p, 200'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 4);
        int calls = 0;
        for (const transport::access rights : {transport::access::local_write, every_right}) {
          const MemoryRegion room = client_memory(s, 200'000, rights);
          for (const std::size_t n : sizes{1, 100, 8192, 100'000}) {
            CAPTURE(n);
            from.as<std::uint32_t>()[0] = static_cast<std::uint32_t>(n);
            std::ranges::fill(room.bytes(), std::byte{0});
            const auto short_of_it =
                co_await at->asks.call(w->client, length_method, from, room.all().first(n - 1))
                    .result();
            CHECK(short_of_it.code() == errc::truncated);
            CHECK(all_zero(room.bytes()));
            const Response got =
                co_await at->asks.call(w->client, length_method, from, room.all().first(n));
            CHECK(got.bytes == n);
            CHECK(filled(room.bytes().first(n), n));
            calls += 2;
          }
        }
        co_await until_handled(*at, calls);
        CHECK(w->client.state() == endpoint_state::connected);
      },
      &p);
}

TEST_CASE("an answer may come long after its handler has ended") {
  stage on;
  service p(on);
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        call_operation late = at->asks.call(w->client, keep_method, from, from).start();
        co_await until_kept(*at, 1);
        CHECK(at->kept[0]->from() == &w->server);
        CHECK(at->kept[0]->method() == keep_method);
        CHECK(at->kept[0]->room() == 8);
        co_await for_a_while(s);
        CHECK_FALSE(late.done());
        co_await at->kept[0]->respond(at->room);
        co_await late;
        // A long request is not the peer's any more once it is answered, read or not.
        at->kept.clear();
        const MemoryRegion long_one = client_memory(s, 50'000);
        call_operation unread = at->asks.call(w->client, keep_method, long_one, from).start();
        co_await until_kept(*at, 1);
        co_await at->kept[0]->respond(at->room);
        co_await unread;
        const auto too_late = co_await at->kept[0]->read(at->room).result();
        CHECK(too_late.code() == errc::bad_state);
        at->kept.clear();
        const MemoryRegion more = client_memory(s, 8);
        call_operation dropped = at->asks.call(w->client, keep_method, more, more).start();
        co_await until_kept(*at, 1);
        at->kept.clear();
        const result<Response> none = co_await dropped.result();
        CHECK(none.code() == errc::rejected);
      },
      &p);
}

// ---- O3 ----

TEST_CASE("O3: a flood of words against a slow server stays within its window, and loses none") {
  for (const std::uint32_t window : {1U, 2U, 5U}) {
    CAPTURE(window);
    stage on;
    service p(on, {.eager_bytes = 1024, .credits = window + 1}, {.window = window},
              {.window = window});
    serve(p);
    on.play(
        [](stage& s, service* at, std::uint32_t most) -> task<> {
          wire* const w = co_await join(*at);
          const MemoryRegion from = client_memory(s, 100);
          const auto words = static_cast<int>(rounds_under_test(1000, 200));
          std::deque<notify_operation> all;
          for (int i = 0; i < words; ++i) {
            all.push_back(at->asks.notify(w->client, gated_method, from).start());
          }
          while (at->running < static_cast<int>(most)) co_await moment(s);
          co_await for_a_while(s);
          CHECK(at->running == static_cast<int>(most));
          const auto sent = std::ranges::count_if(all, [](const auto& op) { return op.done(); });
          CHECK(sent == static_cast<long>(most));
          CHECK(at->answers.running() == most);
          at->gate.set();
          for (notify_operation& one : all) co_await one;
          co_await until_handled(*at, words);
          CHECK(at->most_running <= static_cast<int>(most));
          // Nobody of the server's said anything but that there is room once more.
          CHECK(at->answers.counters().words_given >= static_cast<std::uint64_t>(words) / most / 2);
        },
        &p, window);
  }
}

namespace {

// Asks back before it answers.
task<> ask_back(Requests* by, service* p, Request r) {
  const Response got = co_await by->call(*r.from(), echo_method, Slice(), Slice());
  CHECK(got.bytes == 0);
  co_await r.respond();
  ++p->handled;
}

}  // namespace

TEST_CASE("O3: both sides ask each other from their handlers through the tiniest windows") {
  stage on;
  service p(on, {.credits = 2}, {.window = 1}, {.window = 1});
  serve(p, 8);
  service* const here = &p;
  p.answers.serve(20, [here](Request r) { return ask_back(&here->answers, here, std::move(r)); });
  p.asks.serve(20, [here](Request r) { return ask_back(&here->asks, here, std::move(r)); });
  p.asks.serve(echo_method, [here](Request r) { return echo(here, std::move(r)); });
  // Each side's handler holds the only place of its window while it asks: the other's answers at once.
  on.play(
      [](stage&, service* at) -> task<> {
        wire* const w = co_await join(*at);
        std::deque<call_operation> all;
        for (int i = 0; i < 50; ++i) {
          all.push_back(at->asks.call(w->client, 20, Slice()).start());
        }
        for (call_operation& one : all) co_await one;
        CHECK(at->handled >= 50);
      },
      &p);
}

TEST_CASE("O3: calls beyond the bounds wait their turn, or are told to come again") {
  stage on;
  service p(on, roomy, {.most_calls = 3, .most_bytes = 1000});
  serve(p, 8);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 2000);
        const auto try_one = [&](std::size_t bytes) {
          return at->asks.try_call(w->client, keep_method, from.all().first(bytes)).start();
        };
        // The peer has not said yet how many it takes.
        CHECK(try_one(8).take_result().code() == errc::again);
        call_operation first = at->asks.call(w->client, keep_method, from.all().first(8)).start();
        co_await until_kept(*at, 1);
        call_operation second = try_one(900);
        CHECK_FALSE(second.done());
        CHECK(try_one(900).take_result().code() == errc::again);
        CHECK(try_one(1001).take_result().code() == errc::invalid_value);
        call_operation third = try_one(8);
        CHECK_FALSE(third.done());
        CHECK(try_one(8).take_result().code() == errc::again);
        call_operation fourth = at->asks.call(w->client, keep_method, from.all().first(8)).start();
        call_operation fifth = at->asks.call(w->client, keep_method, from.all().first(8)).start();
        co_await until_kept(*at, 3);
        co_await for_a_while(s);
        CHECK(at->kept.size() == 3);
        co_await at->kept[0]->respond();
        co_await first;
        co_await until_kept(*at, 4);
        CHECK(try_one(8).take_result().code() == errc::again);
        fifth.cancel();
        CHECK(fifth.take_result().code() == errc::canceled);
        for (std::size_t i = 1; i < 4; ++i) co_await at->kept[i]->respond();
        co_await second;
        co_await third;
        co_await fourth;
      },
      &p);
}

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
        const std::uint64_t rounds = rounds_under_test(2000, 200);
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
        // Words that are on their way arrive.
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
  serve(p, 100'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 50'000);
        const MemoryRegion into = client_memory(s, 100'000);
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
        // Destroyed in flight: the same, and the memory stays until the peer has said so.
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

}  // namespace

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
        const call_options soon{.timeout = std::chrono::milliseconds(5)};
        for (const transport::access rights : {transport::access::local_write, every_right}) {
          const MemoryRegion own = client_memory(s, 8, rights);
          const MemoryRegion request = client_memory(s, 8);
          call_operation op = at->asks.call(w->client, keep_method, request, own, soon).start();
          co_await until_kept(*at, 1);
          CHECK(at->kept[0]->deadline() != never);
          const result<Response> got = co_await op.result();
          CHECK(got.code() == errc::timed_out);
          while (!at->kept[0]->unwanted()) co_await moment(s);
          const auto said = co_await at->kept[0]->respond(at->room).result();
          CHECK((said.code() == errc::timed_out || said.code() == errc::canceled));
          at->kept.clear();
        }
        // One that waits its turn, and one that is answered in time.
        const MemoryRegion request = client_memory(s, 8);
        const call_options late{.timeout = std::chrono::seconds(100)};
        const Response in_time =
            co_await at->asks.call(w->client, echo_method, request, request, late);
        CHECK(in_time.bytes == 8);
      },
      &p);
}

// ---- what goes wrong ----

TEST_CASE("the end of a connection ends its calls: flushed before they went, reset after") {
  stage on;
  service p(on, roomy, {}, {.window = 2});
  serve(p, 100'000);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 50'000);
        const MemoryRegion into = client_memory(s, 100'000);
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
        // Others go on.
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
        Listener listener = s.server().listen(s.server_address()).value();
        connect_options to;
        to.messages = asks.get();
        connect_options from;
        from.messages = &at->server;
        serve(*at, 8);
        wire w = co_await connect(s.client(), listener, s.reach(listener), to, from);
        const MemoryRegion memory = client_memory(s, 8);
        call_operation op = asking->call(w.client, keep_method, memory, memory).start();
        co_await until_kept(*at, 1);
        asking.reset();
        const result<Response> got = co_await op.result();
        CHECK_FALSE(got.ok());
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
        Listener listener = s.server().listen(s.server_address()).value();
        connect_options to;
        to.messages = mine;
        connect_options from;
        from.messages = theirs;
        wire w = co_await connect(s.client(), listener, s.reach(listener), to, from);
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

// What a peer of its own making says, one after the other, and what becomes of the connection.
task<errc> say_all(stage& s, service& p, std::vector<std::vector<std::byte>> words,
                   std::size_t data) {
  Messages hostile(s.client(), roomy);
  Listener listener = s.server().listen(s.server_address()).value();
  connect_options to;
  to.messages = &hostile;
  connect_options from;
  from.messages = &p.server;
  wire w = co_await connect(s.client(), listener, s.reach(listener), to, from);
  const MemoryRegion memory = client_memory(s, data + 1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Slice behind = memory.all().first(i + 1 == words.size() ? data : 0);
    const auto sent =
        co_await w.client.am_send(protocol::request_id_of_messages, words[i], behind).result();
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
