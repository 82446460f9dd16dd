// Requests (O1 to O3): responses in any order, the direction of transfers, windows and limits.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/request_service.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace cordma;
using namespace cordma::test;

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

// Responds to the kept requests in random order: the response to n is 3 n + 1.
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
        const std::uint64_t calls = rounds_under_test(100'000);
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
        row{200'000, false, true, true}}) {
    CAPTURE(r.bytes);
    CAPTURE(r.force);
    stage on;
    service p(on, roomy, {.force_read = r.force}, {.force_write = r.force});
    serve(p, 200'000);
    on.play(
        [](stage& s, service* at, row expected) -> task<> {
          wire* const w = co_await join(*at);
          const MemoryRegion from = client_memory(s, 200'000);
          const std::size_t n = expected.bytes;
          co_await at->asks.call(w->client, echo_method, from.all().first(n), from.all().first(n));
          const request_counters& there = at->answers.counters();
          CHECK(there.requests_read == (expected.request_read ? 1 : 0));
          CHECK(there.requests_along == (expected.request_read ? 0 : 1));
          const request_counters& here = at->asks.counters();
          CHECK(here.responses_written == (expected.response_written ? 1 : 0));
          CHECK(here.responses_along == (expected.response_written ? 0 : 1));
          // If the server cannot write to the response buffer, the caller reads a long response.
          const MemoryRegion own = client_memory(s, 200'000, access::local_write);
          co_await at->asks.call(w->client, echo_method, from.all().first(n), own.all().first(n));
          CHECK(here.responses_written == (expected.response_written ? 1 : 0));
          CHECK(here.responses_read == (n > 8192 ? 1 : 0));
          // A request needs no access rights for the peer either: its parts are sent as the peer
          // requests them.
          fill(own.bytes().first(n), n);
          std::ranges::fill(from.bytes(), std::byte{0});
          co_await at->asks.call(w->client, echo_method, own.all().first(n), from.all().first(n));
          CHECK(filled(from.bytes().first(n), n));
          CHECK(there.requests_read == (expected.request_read ? 3 : 0));
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

TEST_CASE("O2: a response longer than the transport's longest request is written in pieces" *
          not_on({transport::kind::shm, transport::kind::tcp}, "where that is 1 GiB")) {
  stage on;
  service p(on);
  const std::size_t bytes = on.caps().max_message + (1 << 20) + 1;
  serve(p, bytes);
  on.play(
      [](stage& s, service* at, std::size_t n) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 4);
        const MemoryRegion room = client_memory(s, n);
        from.as<std::uint32_t>()[0] = static_cast<std::uint32_t>(n);
        const Response got = co_await at->asks.call(w->client, length_method, from, room);
        CHECK(got.bytes == n);
        CHECK(got.written);
        CHECK(filled(room.bytes(), static_cast<std::uint32_t>(n)));
      },
      &p, bytes);
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
          for (const std::size_t n : sizes{1, 100, 8192, 200'000}) {
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
        // The peer releases a long request once it is answered, whether it was read or not.
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
          const auto words = static_cast<int>(rounds_under_test(1000));
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
          // The server's program sent nothing; its only messages report free slots.
          CHECK(at->answers.counters().words_given >= static_cast<std::uint64_t>(words) / most / 2);
        },
        &p, window);
  }
}

namespace {

// Calls back before it responds.
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
  // Each side's handler holds the only slot of its window during its call; the other side answers
  // at once.
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

namespace {

task<> count(int* handled, Request) {
  ++*handled;
  co_return;
}

}  // namespace

TEST_CASE("O2: a call that is withdrawn before it has left takes no window along") {
  stage on;
  const request_options few{.window = 4};
  service p(on, {.eager_bytes = 16'384, .credits = 8}, few, few);
  service* const here = &p;
  int handled = 0;
  p.asks.serve(echo_method, [&handled](Request r) { return count(&handled, std::move(r)); });
  p.asks.serve(keep_method, [here](Request r) { return keep(here, std::move(r)); });
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = server_memory(s, 8);
        // The slot of its request is free again, and the peer has not been notified yet.
        co_await at->answers.notify_acked(w->server, echo_method, Slice());
        // Uses all credits, so that no further message is sent.
        std::size_t unasked = 0;
        for (int in_vain = 0; in_vain < 3;) {
          const result<void> sent = co_await w->client.tag_send(1, from).or_again().result();
          if (sent) {
            ++unasked;
            continue;
          }
          ++in_vain;
          co_await for_a_while(s);
        }
        call_operation lost = at->asks.call(w->client, keep_method, Slice()).start();
        co_await for_a_while(s);
        lost.cancel();
        const result<Response> withdrawn = co_await lost.result();
        CHECK(withdrawn.code() == errc::canceled);
        // All slots that the peer was notified of are in use, until it is notified of a fourth.
        for (int i = 0; i < 3; ++i) co_await at->answers.notify(w->server, keep_method, Slice());
        co_await until_kept(*at, 3);
        notify_operation fourth = at->answers.notify(w->server, keep_method, Slice()).start();
        for (std::size_t i = 0; i < unasked; ++i) co_await at->server.tag_recv(1, into);
        co_await fourth;
        co_await until_kept(*at, 4);
        at->kept.clear();
      },
      &p);
  CHECK(handled == 1);
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
        // The peer has not reported its window yet.
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

namespace {

enum class fate : std::uint8_t { canceled, destroyed, late };

}  // namespace

TEST_CASE("O3: what waits behind a call that is too large goes when that is given up") {
  for (const fate how : {fate::canceled, fate::destroyed, fate::late}) {
    CAPTURE(static_cast<int>(how));
    stage on;
    service p(on, roomy, {.most_bytes = 1000});
    serve(p, 8);
    on.play(
        [](stage& s, service* at, fate end) -> task<> {
          wire* const w = co_await join(*at);
          const MemoryRegion from = client_memory(s, 900);
          const Slice large = from.all();
          call_operation first = at->asks.call(w->client, keep_method, large).start();
          co_await until_kept(*at, 1);
          const call_options soon{.timeout = std::chrono::milliseconds(20)};
          const call_options patient;
          std::optional<call_operation> waiting(
              at->asks.call(w->client, keep_method, large, {}, end == fate::late ? soon : patient)
                  .start());
          call_operation behind = at->asks.call(w->client, keep_method, large.first(8)).start();
          if (end == fate::canceled) waiting->cancel();
          if (end == fate::destroyed) waiting.reset();
          co_await until_kept(*at, 2);
          for (const std::unique_ptr<Request>& r : at->kept) co_await r->respond();
          co_await first;
          co_await behind;
        },
        &p, how);
  }
}

namespace {

task<> keep_in(std::vector<std::unique_ptr<Request>>* at, Request r) {
  at->push_back(std::make_unique<Request>(std::move(r)));
  co_return;
}

}  // namespace

TEST_CASE(
    "O2: where both sides hold all the requests they take, their answers still find a credit") {
  constexpr std::uint32_t window = 5;
  stage on;
  on.play([](stage& s) -> task<> {
    constexpr message_options tight{.eager_bytes = 1024, .credits = window + 1};
    std::array<std::unique_ptr<Messages>, 2> messages;
    messages[0] = std::make_unique<Messages>(s.client(), tight);
    messages[1] = std::make_unique<Messages>(s.server(), tight);
    std::array<std::unique_ptr<Requests>, 2> requests;
    std::array<std::vector<std::unique_ptr<Request>>, 2> kept;
    for (std::size_t i = 0; i < 2; ++i) {
      requests[i] = std::make_unique<Requests>(*messages[i], request_options{.window = window});
      requests[i]->serve(1, [at = &kept[i]](Request r) { return keep_in(at, std::move(r)); });
    }
    wire w = co_await connect_messages(s, *messages[0], *messages[1]);
    const std::array<Endpoint*, 2> ends{&w.client, &w.server};
    const std::array<MemoryRegion, 2> memory{client_memory(s, 8), server_memory(s, 8)};
    std::deque<call_operation> calls;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::uint32_t n = 0; n < window; ++n) {
        calls.push_back(requests[i]->call(*ends[i], 1, memory[i]));
        calls.back().start();
      }
    }
    while (kept[0].size() < window || kept[1].size() < window) co_await moment(s);
    for (int i = 0; i < 50; ++i) co_await moment(s);
    // Their last credits are used by messages that cross, so neither message returns the other's
    // credit.
    message_send_operation there = w.client.tag_send(7, memory[0]).start();
    message_send_operation back = w.server.tag_send(7, memory[1]).start();
    co_await there;
    co_await back;
    for (std::size_t i = 0; i < 2; ++i) co_await messages[i]->tag_recv(7, memory[i]);
    for (auto& side : kept) {
      for (auto& one : side) co_await one->respond();
    }
    for (call_operation& call : calls) co_await call;
    for (auto& side : kept) side.clear();
  });
}
