// Sessions of requests (O5): connecting on demand, redirects, servers that stop and restart.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/request_session.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t echo_method = 1;
constexpr std::uint16_t keep_method = 2;
constexpr std::uint16_t move_method = 3;

// A server that accepts every connection request until it is stopped.
struct server {
  explicit server(stage& s, std::uint16_t port = 0)
      : on(&s),
        room(server_memory(s, 50'000)),
        messages(std::make_unique<Messages>(s.server())),
        requests(std::make_unique<Requests>(*messages)),
        listener(s.server().listen(s.server_address(port)).value()),
        accepting(s.server().loop()) {}
  [[nodiscard]] std::string address() const { return on->reach(listener); }

  stage* on;
  MemoryRegion room;
  std::unique_ptr<Messages> messages;
  std::unique_ptr<Requests> requests;
  Listener listener;
  std::vector<std::unique_ptr<Request>> kept;
  std::vector<Endpoint> connections;
  std::string redirects_to;  // empty: it accepts
  std::string moves_to;
  int handled = 0;
  scope accepting;
};

task<> accept_all(server* of) {
  for (;;) {
    ConnectionRequest asks = co_await of->listener.next();
    if (!of->redirects_to.empty()) {
      CHECK(redirect(asks, of->redirects_to).ok());
      continue;
    }
    connect_options how;
    how.messages = of->messages.get();
    Endpoint accepted = co_await asks.accept(how);
    of->connections.push_back(std::move(accepted));
  }
}

task<> echo(server* of, Request r) {
  ++of->handled;
  if (r.data().size() == r.size()) {
    std::ranges::copy(r.data(), of->room.data());
  } else {
    co_await r.read(of->room.all());
  }
  co_await r.respond(of->room.all().first(r.size()));
}

task<> keep(server* of, Request r) {
  of->kept.push_back(std::make_unique<Request>(std::move(r)));
  co_return;
}

task<> move_on(server* of, Request r) {
  ++of->handled;
  if (!r.wants_response()) co_return;
  if (of->moves_to.empty()) {
    co_await r.respond();
  } else {
    co_await r.redirect(of->moves_to);
  }
}

std::unique_ptr<server> start(stage& s, std::uint16_t port = 0) {
  auto made = std::make_unique<server>(s, port);
  server* const at = made.get();
  at->requests->serve(echo_method, [at](Request r) { return echo(at, std::move(r)); });
  at->requests->serve(keep_method, [at](Request r) { return keep(at, std::move(r)); });
  at->requests->serve(move_method, [at](Request r) { return move_on(at, std::move(r)); });
  at->accepting.spawn(accept_all(at));
  return made;
}

// Simulates a killed process: it sends no shutdown messages.
void kill(std::unique_ptr<server>& s) {
  for (Endpoint& e : s->connections) e.abort();
  s->kept.clear();
  s.reset();
}

session_options quick(std::uint32_t most_failures = session_options().most_failures) {
  session_options o;
  o.most_failures = most_failures;
  o.first_pause = std::chrono::milliseconds(1);
  o.longest_pause = std::chrono::milliseconds(20);
  return o;
}

struct client {
  explicit client(stage& s) : worker(&s.client()), messages(*worker), requests(messages) {}
  RequestSession& open(std::vector<std::string> addresses, const session_options& o = quick()) {
    return session.emplace(*worker, messages, requests, std::move(addresses), o);
  }
  Worker* worker;
  Messages messages;
  Requests requests;
  std::optional<RequestSession> session;
};

// Returns the error code of the call.
task<errc> code_of(task<Response> call) {
  try {
    co_await std::move(call);
  } catch (const error& e) {
    co_return e.why().code();
  }
  co_return errc::ok;
}

task<> ask_until(RequestSession* session, Slice memory, const bool* over) {
  while (!*over) co_await session->call(echo_method, memory, memory);
}

task<> note(errc* place, task<Response> call) { *place = co_await code_of(std::move(call)); }

}  // namespace

TEST_CASE("O5: a session connects when it is asked, once, and again after it was closed") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        RequestSession& session = from->open({there->address()});
        CHECK(session.endpoint() == nullptr);
        const MemoryRegion memory = client_memory(s, 50'000);
        const MemoryRegion into = client_memory(s, 50'000);
        for (int i = 0; i < 3; ++i) {
          fill(memory.bytes(), static_cast<std::uint64_t>(i));
          const Response got = co_await session.call(echo_method, memory.all(), into.all());
          CHECK(got.bytes == 50'000);
          CHECK(filled(into.bytes(), static_cast<std::uint64_t>(i)));
        }
        co_await session.notify_acked(move_method, memory.all().first(8));
        co_await session.notify(move_method, memory.all().first(8));
        CHECK(session.counters().connects == 1);
        co_await session.close();
        CHECK(session.endpoint() == nullptr);
        const Response again = co_await session.call(echo_method, memory.all(), into.all());
        CHECK(again.bytes == 50'000);
        CHECK(session.counters().connects == 2);
        CHECK(session.counters().failures == 0);
        CHECK(there->handled == 6);
        from->session.reset();
      },
      &c);
}

namespace {

task<> close_and_note(RequestSession* session, bool* closed) {
  co_await session->close();
  *closed = true;
}

}  // namespace

TEST_CASE(
    "O5: closing waits for the calls, not for who connects, nor for a peer that takes nothing") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        session_options o = quick();
        o.first_pause = o.longest_pause = std::chrono::hours(1);
        o.close_timeout = std::chrono::milliseconds(50);
        RequestSession& session = from->open({there->address()}, o);
        const MemoryRegion memory = client_memory(s, 300'000);
        errc kept = errc::unknown;
        scope beside(s.loop());
        beside.spawn(note(&kept, session.call(keep_method, memory.all().first(8))));
        while (there->kept.empty()) co_await moment(s);
        // No receive matches this message.
        message_send_operation unwanted = session.endpoint()->tag_send(99, memory.all()).start();
        bool closed = false;
        beside.spawn(close_and_note(&session, &closed));
        for (int i = 0; i < 100; ++i) co_await moment(s);
        CHECK_FALSE(closed);
        CHECK(kept == errc::unknown);
        co_await there->kept[0]->respond();
        while (!closed) co_await moment(s);
        CHECK(kept == errc::ok);
        const result<void> end = co_await unwanted.result();
        CHECK(end.code() == errc::flushed);
        co_await beside.join();

        // A call that waits an hour before its next attempt does not delay close().
        there->kept.clear();
        kill(there);
        errc in_vain = errc::unknown;
        cancel_source enough;
        scope trying(s.client().loop(), &enough);
        trying.spawn(note(&in_vain, session.call(keep_method, memory.all().first(8))));
        while (session.counters().failures == 0) co_await moment(s);
        co_await session.close();
        CHECK(in_vain == errc::unknown);
        enough.request();
        while (in_vain == errc::unknown) co_await moment(s);
        CHECK(in_vain == errc::canceled);
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: who gives up waiting for close() cuts nothing off, and the next one waits again") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        RequestSession& session = from->open({there->address()});
        const MemoryRegion memory = client_memory(s, 300'000);
        const MemoryRegion room = server_memory(s, 300'000);
        for (std::uint64_t tag = 1; tag <= 2; ++tag) {
          co_await session.call(move_method, Slice());
          message_send_operation sent = session.endpoint()->tag_send(tag, memory.all()).start();
          errc code = errc::ok;
          try {
            co_await with_timeout(std::chrono::milliseconds(10), session.close());
          } catch (const error& e) {
            code = e.condition();
          }
          CHECK(code == errc::timed_out);
          bool closed = false;
          scope beside(s.loop());
          beside.spawn(close_and_note(&session, &closed));
          for (int i = 0; i < 100; ++i) co_await moment(s);
          CHECK_FALSE(closed);
          const TagReceived got = co_await there->messages->tag_recv(tag, room);
          CHECK(got.bytes == 300'000);
          co_await beside.join();
          CHECK(closed);
          const result<void> end = co_await sent.result();
          CHECK(end.ok());
        }
        from->session.reset();
      },
      &c);
}

namespace {

task<> nothing() { co_return; }

// The number of inline resumptions per pass is limited: one awaiter more resumes from the ready
// list.
task<> call_after(RequestSession* session, int awaits, event* go) {
  co_await go->wait();
  for (int i = 0; i < awaits; ++i) co_await nothing();
  co_await session->call(move_method, Slice());
}

task<> close_after(RequestSession* session, int awaits, event* go) {
  co_await go->wait();
  for (int i = 0; i < awaits; ++i) co_await nothing();
  co_await session->close();
}

}  // namespace

TEST_CASE(
    "O5: a session that is closed while a call is about to start lets it end, wherever it is") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        RequestSession& session = from->open({there->address()});
        int calls = 0;
        for (int awaits = 240; awaits < 262; ++awaits) {
          for (const int before : {0, 1}) {
            CAPTURE(awaits);
            CAPTURE(before);
            co_await session.call(move_method, Slice());
            task_context& me = co_await this_task();
            scope both(me);
            event go;
            both.spawn(call_after(&session, awaits, &go));
            both.spawn(close_after(&session, before, &go));
            for (int i = 0; i < 5; ++i) co_await moment(s);
            go.set();
            co_await both.join();
            calls += 2;
            CHECK(there->handled == calls);
          }
        }
        CHECK(session.counters().failures == 0);
        co_await session.close();
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: where a redirect leads to is used on when the connection that it left fails") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> one = start(s);
        std::unique_ptr<server> two = start(s);
        one->moves_to = two->address();
        RequestSession& session = from->open({one->address()});
        errc kept = errc::unknown;
        scope beside(s.loop());
        beside.spawn(note(&kept, session.call(keep_method, Slice())));
        while (one->kept.empty()) co_await moment(s);
        co_await session.call(move_method, Slice());
        CHECK(two->handled == 1);
        for (Endpoint& e : one->connections) e.abort();
        co_await beside.join();
        CHECK(kept == errc::connection_reset);
        CHECK(session.counters().failures == 1);
        one->kept.clear();
        co_await session.close();
        co_await session.call(move_method, Slice());
        CHECK(one->handled == 1);
        CHECK(two->handled == 2);
        // The session stays with this server until the server fails.
        kill(two);
        while (session.endpoint()->state() != endpoint_state::closed) co_await moment(s);
        one->moves_to.clear();
        co_await session.call(move_method, Slice());
        CHECK(one->handled == 2);
        co_await session.close();
        from->session.reset();
      },
      &c);
}

TEST_CASE(
    "O5: a connection that ends counts as a failure in a row only where nothing was answered") {
  for (const bool answers : {true, false}) {
    CAPTURE(answers);
    stage on;
    client c(on);
    on.play(
        [](stage& s, client* from, bool answered) -> task<> {
          std::unique_ptr<server> there = start(s);
          RequestSession& session = from->open({there->address()}, quick(1));
          const session_call_options again{.idempotent = true};
          errc kept = errc::unknown;
          scope beside(s.loop());
          beside.spawn(note(&kept, session.call(keep_method, Slice(), Slice(), again)));
          while (there->kept.empty()) co_await moment(s);
          if (answered) co_await session.call(move_method, Slice());
          for (Endpoint& e : there->connections) e.abort();
          there->kept.clear();
          while (kept == errc::unknown && there->kept.empty()) co_await moment(s);
          REQUIRE(there->kept.empty() != answered);
          if (answered) co_await there->kept.front()->respond();
          co_await beside.join();
          CHECK(kept == (answered ? errc::ok : errc::connection_reset));
          CHECK(session.counters().failures == 1);
          CHECK(session.counters().retries == (answered ? 1U : 0U));
          there->kept.clear();
          co_await session.close();
          from->session.reset();
        },
        &c, answers);
  }
}

TEST_CASE("O5: a call that ends each connection it comes over is not asked for ever") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        RequestSession& session = from->open({there->address()}, quick(3));
        const session_call_options again{.idempotent = true};
        errc end = errc::unknown;
        int asked = 0;
        scope beside(s.loop());
        beside.spawn(note(&end, session.call(keep_method, Slice(), Slice(), again)));
        while (end == errc::unknown) {
          if (there->kept.empty()) {
            co_await moment(s);
            continue;
          }
          ++asked;
          co_await session.call(move_method, Slice());  // other calls are answered
          for (Endpoint& e : there->connections) e.abort();
          there->kept.clear();
        }
        co_await beside.join();
        CHECK(end == errc::connection_reset);
        CHECK(asked == 4);
        const errc others = co_await code_of(session.call(move_method, Slice()));
        CHECK(others == errc::ok);
        co_await session.close();
        from->session.reset();
      },
      &c);
}

namespace {

constexpr std::uint32_t attempts = 9;
constexpr auto shortest = std::chrono::milliseconds(100);
constexpr auto longest = std::chrono::milliseconds(800);
constexpr duration about = std::chrono::milliseconds(1);

bool differs(duration a, duration b) { return std::chrono::abs(a - b) > about; }

// Returns the pauses between the attempts to connect to an unreachable server.
task<std::vector<duration>> pauses(stage& s, client& from, std::string nobody, std::uint64_t seed) {
  session_options o;
  o.most_failures = attempts;
  o.first_pause = shortest;
  o.longest_pause = longest;
  o.seed = seed;
  RequestSession session(s.client(), from.messages, from.requests, {std::move(nobody)}, o);
  errc end = errc::unknown;
  scope beside(s.loop());
  std::vector<time_point> failed{s.loop().now()};
  beside.spawn(note(&end, session.call(echo_method, Slice())));
  while (end == errc::unknown) {
    if (session.counters().failures == failed.size()) failed.push_back(s.loop().now());
    co_await sleep_for(std::chrono::microseconds(100));
  }
  co_await beside.join();
  CHECK(end == errc::unreachable);
  const duration attempt = failed[1] - failed[0];
  std::vector<duration> all;
  for (std::size_t i = 2; i < failed.size(); ++i) {
    all.push_back(failed[i] - failed[i - 1] - attempt);
  }
  co_return all;
}

}  // namespace

TEST_CASE("O5: pauses double up to the longest, and chance shortens each by up to half" *
          only_on(transport::kind::sim, "its time is virtual")) {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> gone = start(s);
        const std::string nobody = gone->address();
        gone.reset();
        const std::vector<duration> some = co_await pauses(s, *from, nobody, 1);
        CHECK(some.size() >= attempts - 2);
        duration most = shortest;
        for (const duration pause : some) {
          CAPTURE(pause.count());
          CHECK(pause > most / 2 - about);
          CHECK(pause < most + about);
          most = std::min<duration>(2 * most, longest);
        }
        // The last pauses are drawn from the longest range.
        const auto held = std::span(some).last(4);
        CHECK(std::ranges::max(held) - std::ranges::min(held) > 10 * about);
        const std::vector<duration> same = co_await pauses(s, *from, nobody, 1);
        const std::vector<duration> others = co_await pauses(s, *from, nobody, 2);
        REQUIRE(same.size() == some.size());
        for (std::size_t i = 0; i < some.size(); ++i) CHECK_FALSE(differs(some[i], same[i]));
        CHECK(std::ranges::mismatch(some, others, std::not_fn(differs)).in1 != some.end());
      },
      &c);
}

TEST_CASE("O5: a redirect is followed, at accept and as an answer; in a circle it ends") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> door = start(s);
        std::unique_ptr<server> first = start(s);
        std::unique_ptr<server> second = start(s);
        door->redirects_to = first->address();
        first->moves_to = second->address();
        RequestSession& session = from->open({door->address()});
        const MemoryRegion memory = client_memory(s, 100);
        co_await session.call(echo_method, memory.all(), memory.all());
        CHECK(first->handled == 1);
        // Another call is in progress there, and stays.
        errc kept = errc::unknown;
        scope beside(s.loop());
        beside.spawn(note(&kept, session.call(keep_method, memory.all(), memory.all())));
        while (first->kept.empty()) co_await moment(s);
        co_await session.call(move_method, Slice());
        CHECK(first->handled == 2);
        CHECK(second->handled == 1);
        CHECK(session.counters().redirects == 2);
        co_await session.call(echo_method, memory.all(), memory.all());
        CHECK(second->handled == 2);
        CHECK(kept == errc::unknown);
        co_await first->kept[0]->respond();
        co_await beside.join();
        CHECK(kept == errc::ok);
        first->kept.clear();

        second->moves_to = first->address();
        // The result is the same although other calls are answered meanwhile.
        bool over = false;
        scope others(s.loop());
        others.spawn(ask_until(&session, memory.all(), &over));
        const errc circle = co_await code_of(session.call(move_method, Slice()));
        CHECK(circle == errc::rejected);
        over = true;
        co_await others.join();
        second->moves_to.clear();
        first->moves_to.clear();
        co_await session.call(move_method, Slice());
        co_await session.close();
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: a server that is killed and comes back: pending calls fail, or are asked again") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        const std::uint16_t port = there->listener.bound().port;
        RequestSession& session = from->open({there->address()});
        const MemoryRegion memory = client_memory(s, 50'000);
        const MemoryRegion once = client_memory(s, 50'000);
        const MemoryRegion again = client_memory(s, 50'000);
        fill(memory.bytes(), 1);
        errc of_once = errc::unknown;
        errc of_again = errc::unknown;
        const session_call_options retried{.idempotent = true};
        scope beside(s.loop());
        beside.spawn(note(&of_once, session.call(keep_method, memory.all(), once.all())));
        beside.spawn(
            note(&of_again, session.call(keep_method, memory.all(), again.all(), retried)));
        while (there->kept.size() < 2) co_await moment(s);
        kill(there);
        while (of_once == errc::unknown) co_await moment(s);
        CHECK(of_once == errc::connection_reset);
        CHECK(of_again == errc::unknown);
        there = start(s, port);
        while (there->kept.empty()) co_await moment(s);
        fill(there->room.bytes(), 2);
        co_await there->kept[0]->respond(there->room);
        co_await beside.join();
        CHECK(of_again == errc::ok);
        CHECK(filled(again.bytes(), 2));
        CHECK(session.counters().connects == 2);
        CHECK(session.counters().retries == 1);
        CHECK(session.counters().failures >= 1);
        there->kept.clear();
        co_await session.close();
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: where one address does not answer the next one is tried, and none at last") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> gone = start(s);
        const std::string nobody = gone->address();
        gone.reset();
        std::unique_ptr<server> there = start(s);
        RequestSession& session = from->open({nobody, there->address()});
        const MemoryRegion memory = client_memory(s, 100);
        co_await session.call(echo_method, memory.all(), memory.all());
        CHECK(session.counters().failures == 1);
        const session_call_options soon{.timeout = std::chrono::milliseconds(5)};
        const errc unanswered =
            co_await code_of(session.call(keep_method, memory.all(), memory.all(), soon));
        CHECK(unanswered == errc::timed_out);
        const errc unserved = co_await code_of(session.call(77, memory.all()));
        CHECK(unserved == errc::not_found);
        kill(there);
        while (session.endpoint()->state() != endpoint_state::closed) co_await moment(s);
        const errc none = co_await code_of(session.call(echo_method, memory.all(), memory.all()));
        CHECK(none == errc::unreachable);
        CHECK(session.counters().failures >= 8);
        session_options slow = quick();
        slow.first_pause = slow.longest_pause = std::chrono::seconds(1000);
        RequestSession& hesitant = from->open({nobody}, slow);
        const errc late = co_await code_of(hesitant.call(echo_method, Slice(), Slice(), soon));
        CHECK(late == errc::timed_out);
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: calls that wait for the same attempts to connect share their failure") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> gone = start(s);
        const std::string nobody = gone->address();
        gone.reset();
        RequestSession& session = from->open({nobody}, quick(3));
        std::array<errc, 5> ends{};
        scope beside(s.loop());
        for (errc& end : ends) beside.spawn(note(&end, session.call(echo_method, Slice())));
        co_await beside.join();
        for (const errc end : ends) CHECK(end == errc::unreachable);
        CHECK(session.counters().failures == 3);
        from->session.reset();
      },
      &c);
}

TEST_CASE("O5: a server that serves no requests is left for the next one") {
  stage on;
  Messages messages(on.client());
  Requests requests(messages, {.hello_timeout = std::chrono::milliseconds(20)});
  on.play(
      [](stage& s, Messages* mine, Requests* asks) -> task<> {
        std::unique_ptr<server> there = start(s);
        Messages without(s.server());
        Listener door = s.server().listen(s.server_address()).value();
        RequestSession session(s.client(), *mine, *asks, {s.reach(door), there->address()},
                               quick());
        errc end = errc::unknown;
        scope beside(s.loop());
        beside.spawn(note(&end, session.call(move_method, Slice())));
        ConnectionRequest request = co_await door.next();
        const Endpoint deaf = co_await request.accept(with(without));
        co_await beside.join();
        CHECK(end == errc::ok);
        CHECK(there->handled == 1);
        CHECK(session.counters().connects == 2);
        CHECK(session.counters().failures == 1);
        const session_call_options passed{.timeout = std::chrono::seconds(-1)};
        const errc late = co_await code_of(session.call(move_method, Slice(), Slice(), passed));
        CHECK(late == errc::timed_out);
        const Slice nothing;
        const result<Response> too_late =
            co_await asks
                ->call(*session.endpoint(), move_method, nothing, nothing,
                       {.timeout = std::chrono::nanoseconds(-1)})
                .result();
        CHECK(too_late.code() == errc::timed_out);
        CHECK(there->handled == 1);
        co_await session.close();
      },
      &messages, &requests);
}

TEST_CASE("O5: a session without an address, or with bounds of nothing, is refused") {
  stage on;
  client c(on);
  const auto refusal = [&](std::vector<std::string> addresses, session_options o) {
    try {
      const RequestSession made(on.client(), c.messages, c.requests, std::move(addresses), o);
    } catch (const error& e) {
      return e.why().code();
    }
    return errc::ok;
  };
  CHECK(refusal({}, {}) == errc::invalid_value);
  CHECK(refusal({"a:1"}, {.endpoint = {}, .most_failures = 0}) == errc::invalid_value);
  CHECK(refusal({"a:1"}, {.endpoint = {}, .most_redirects = 0}) == errc::invalid_value);
  for (duration session_options::* const time :
       {&session_options::first_pause, &session_options::longest_pause,
        &session_options::close_timeout}) {
    session_options o;
    o.*time = duration::zero();
    CHECK(refusal({"a:1"}, o) == errc::invalid_value);
  }
  CHECK(refusal({"a:1"}, {}) == errc::ok);
}
