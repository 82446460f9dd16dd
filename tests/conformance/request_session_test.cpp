// Sessions of requests (O5): connecting on demand, redirects, servers that go and come back.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/request_session.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t echo_method = 1;
constexpr std::uint16_t keep_method = 2;
constexpr std::uint16_t move_method = 3;

// A server that accepts whoever comes, until it is stopped.
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

// As a process that is killed: nobody says good-bye.
void kill(std::unique_ptr<server>& s) {
  for (Endpoint& e : s->connections) e.abort();
  s->kept.clear();
  s.reset();
}

struct client {
  explicit client(stage& s) : messages(s.client()), requests(messages) {}
  Messages messages;
  Requests requests;
  std::optional<RequestSession> session;
};

session_options quick() {
  session_options o;
  o.first_pause = std::chrono::milliseconds(1);
  o.longest_pause = std::chrono::milliseconds(20);
  return o;
}

// What a call throws.
task<errc> code_of(task<Response> call) {
  try {
    co_await std::move(call);
  } catch (const error& e) {
    co_return e.why().code();
  }
  co_return errc::ok;
}

task<> note(errc* place, task<Response> call) { *place = co_await code_of(std::move(call)); }

}  // namespace

TEST_CASE("O5: a session connects when it is asked, once, and again after it was closed") {
  stage on;
  client c(on);
  on.play(
      [](stage& s, client* from) -> task<> {
        std::unique_ptr<server> there = start(s);
        from->session.emplace(s.client(), from->messages, from->requests,
                              std::vector{there->address()}, quick());
        RequestSession& session = *from->session;
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
        from->session.emplace(s.client(), from->messages, from->requests,
                              std::vector{there->address()}, o);
        RequestSession& session = *from->session;
        const MemoryRegion memory = client_memory(s, 300'000);
        errc kept = errc::unknown;
        task_context& me = co_await this_task();
        scope beside(me);
        beside.spawn(note(&kept, session.call(keep_method, memory.all().first(8))));
        while (there->kept.empty()) co_await moment(s);
        // Nobody receives it.
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

        // Whoever pauses before the next attempt, for an hour, keeps nobody from closing.
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
        from->session.emplace(s.client(), from->messages, from->requests,
                              std::vector{door->address()}, quick());
        RequestSession& session = *from->session;
        const MemoryRegion memory = client_memory(s, 100);
        co_await session.call(echo_method, memory.all(), memory.all());
        CHECK(first->handled == 1);
        // Another call is under way there, and stays.
        errc kept = errc::unknown;
        task_context& me = co_await this_task();
        scope beside(me);
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
        const errc circle = co_await code_of(session.call(move_method, Slice()));
        CHECK(circle == errc::rejected);
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
        from->session.emplace(s.client(), from->messages, from->requests,
                              std::vector{there->address()}, quick());
        RequestSession& session = *from->session;
        const MemoryRegion memory = client_memory(s, 50'000);
        const MemoryRegion once = client_memory(s, 50'000);
        const MemoryRegion again = client_memory(s, 50'000);
        fill(memory.bytes(), 1);
        errc of_once = errc::unknown;
        errc of_again = errc::unknown;
        session_call_options retried;
        retried.idempotent = true;
        task_context& me = co_await this_task();
        scope beside(me);
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
        from->session.emplace(s.client(), from->messages, from->requests,
                              std::vector{nobody, there->address()}, quick());
        RequestSession& session = *from->session;
        const MemoryRegion memory = client_memory(s, 100);
        co_await session.call(echo_method, memory.all(), memory.all());
        CHECK(session.counters().failures == 1);
        session_call_options soon;
        soon.timeout = std::chrono::milliseconds(5);
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
        from->session.emplace(s.client(), from->messages, from->requests, std::vector{nobody},
                              slow);
        const errc late =
            co_await code_of(from->session->call(echo_method, Slice(), Slice(), soon));
        CHECK(late == errc::timed_out);
        from->session.reset();
      },
      &c);
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
  CHECK(refusal({"a:1"}, {}) == errc::ok);
}
