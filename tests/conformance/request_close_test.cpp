// Requests when their connection is closed: started requests are carried out first, whichever side
// closes the connection, and whenever.
#include <doctest/doctest.h>
#include <support/request_service.hpp>
#include <support/stage.hpp>

#include <cordma/net/endpoint_pool.hpp>
#include <cordma/runtime/scope.hpp>

#include <deque>
#include <optional>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t long_bytes = 50'000;
constexpr int many = 100;

// Counts the request after its data has been read completely.
task<> count(service* p, Request r) {
  if (r.data().size() != r.size()) co_await r.read(p->room.all());
  ++p->handled;
}

constexpr std::uint16_t count_method = 20;

void serve_counted(service& p) {
  serve(p, long_bytes);
  service* const at = &p;
  p.answers.serve(count_method, [at](Request r) { return count(at, std::move(r)); });
}

template <class Operation>
task<int> how_many_went_well(std::deque<Operation>* all) {
  int well = 0;
  for (Operation& one : *all) {
    const auto end = co_await one.result();
    CAPTURE(name(end.code()));
    CHECK(end.ok());
    well += end.ok() ? 1 : 0;
  }
  co_return well;
}

task<> until_closed(stage& s, const Endpoint& e) {
  while (e.state() != endpoint_state::closed) co_await moment(s);
}

}  // namespace

TEST_CASE("closing carries out first what was started: words, acknowledged ones, and calls") {
  for (const std::size_t bytes : sizes{8, long_bytes}) {
    for (const bool greeted : {false, true}) {
      CAPTURE(bytes);
      CAPTURE(greeted);
      stage on;
      service p(on);
      serve_counted(p);
      on.play(
          [](stage& s, service* at, std::size_t each, bool after_hello) -> task<> {
            wire* const w = co_await join(*at);
            const MemoryRegion from = client_memory(s, each);
            const MemoryRegion into = client_memory(s, each);
            const MemoryRegion own = client_memory(s, each, access::local_write);
            if (after_hello) co_await at->asks.call(w->client, echo_method, from, into);
            const int before = after_hello ? 1 : 0;
            co_await until_handled(*at, before);
            std::deque<notify_operation> words;
            std::deque<call_operation> calls;
            for (int i = 0; i < many; ++i) {
              words.push_back(at->asks.notify(w->client, count_method, from).start());
            }
            words.push_back(at->asks.notify_acked(w->client, count_method, from).start());
            calls.push_back(at->asks.call(w->client, echo_method, from, into).start());
            calls.push_back(at->asks.call(w->client, echo_method, from, own).start());
            state_operation closing = w->client.close().start();
            CHECK(w->client.state() == endpoint_state::closing);
            const result<void> late =
                co_await at->asks.notify(w->client, count_method, from).result();
            CHECK(late.code() == errc::not_connected);
            co_await closing;
            const int words_well = co_await how_many_went_well(&words);
            CHECK(words_well == many + 1);
            const int calls_well = co_await how_many_went_well(&calls);
            CHECK(calls_well == 2);
            co_await until_closed(s, w->server);
            CHECK(w->server.first_cause()->code() == errc::not_connected);
            co_await for_a_while(s);
            CHECK(at->handled == before + many + 3);
          },
          &p, bytes, greeted);
    }
  }
}

TEST_CASE("a word that has left arrives, though its connection is closed behind it") {
  stage on;
  service p(on);
  serve_counted(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion from = client_memory(s, 8);
        std::deque<notify_operation> words;
        for (int i = 0; i < many; ++i) {
          words.push_back(at->asks.notify(w->client, count_method, from).start());
        }
        co_await w->client.close();
        const int well = co_await how_many_went_well(&words);
        CHECK(well == many);
        while (at->handled < many) co_await moment(s);
      },
      &p);
}

TEST_CASE("both sides close at once: each has its answers first, however they come") {
  for (const std::size_t bytes : sizes{8, long_bytes}) {
    CAPTURE(bytes);
    stage on;
    service p(on);
    serve_counted(p);
    service* const of_p = &p;
    p.asks.serve(keep_method, [of_p](Request r) { return keep(of_p, std::move(r)); });
    on.play(
        [](stage& s, service* at, std::size_t each) -> task<> {
          wire* const w = co_await join(*at);
          const MemoryRegion here = client_memory(s, each);
          const MemoryRegion there = server_memory(s, each);
          std::deque<call_operation> calls;
          calls.push_back(at->asks.call(w->client, keep_method, here, here).start());
          calls.push_back(at->answers.call(w->server, keep_method, there, there).start());
          co_await until_kept(*at, 2);
          state_operation one = w->client.close().start();
          state_operation other = w->server.close().start();
          co_await for_a_while(s);
          CHECK(w->client.state() == endpoint_state::closing);
          CHECK(w->server.state() == endpoint_state::closing);
          std::deque<respond_operation> answers;
          for (const std::unique_ptr<Request>& r : at->kept) {
            const Slice answer = r->from() == &w->client ? here.all() : there.all();
            answers.push_back(r->respond(answer).start());
          }
          const int said = co_await how_many_went_well(&answers);
          CHECK(said == 2);
          at->kept.clear();
          co_await one;
          co_await other;
          const int well = co_await how_many_went_well(&calls);
          CHECK(well == 2);
        },
        &p, bytes);
  }
}

TEST_CASE(
    "answers that have begun come out before their side closes, whatever place there is for them") {
  stage on;
  service p(on);
  serve_counted(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        const connect_options wide;
        connect_options narrow;
        narrow.endpoint.send_depth = 2;
        wire w = co_await connect_messages(s, at->client, at->server, wide, narrow);
        constexpr std::size_t count = 8;
        const MemoryRegion from = client_memory(s, 8);
        const MemoryRegion into = client_memory(s, count * long_bytes);
        fill(at->room.bytes(), 6);
        std::deque<call_operation> calls;
        for (std::size_t i = 0; i < count; ++i) {
          const Slice place = into.all().part(i * long_bytes, long_bytes);
          calls.push_back(at->asks.call(w.client, keep_method, from, place).start());
        }
        co_await until_kept(*at, count);
        std::deque<respond_operation> answers;
        for (const std::unique_ptr<Request>& r : at->kept) {
          answers.push_back(r->respond(at->room).start());
        }
        co_await w.server.close();
        const int said = co_await how_many_went_well(&answers);
        CHECK(said == count);
        const int heard = co_await how_many_went_well(&calls);
        CHECK(heard == count);
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(filled(into.bytes().subspan(i * long_bytes, long_bytes), 6));
        }
        at->kept.clear();
      },
      &p);
}

TEST_CASE("closing waits for what this side asked alone, and no longer than that waits") {
  enum class end : std::uint8_t { timed_out, canceled, destroyed, aborted, asked_by_peer };
  for (const end how :
       {end::timed_out, end::canceled, end::destroyed, end::aborted, end::asked_by_peer}) {
    for (const bool writable : {false, true}) {
      CAPTURE(static_cast<int>(how));
      CAPTURE(writable);
      stage on;
      service p(on);
      serve_counted(p);
      on.play(
          [](stage& s, service* at, end by, bool may_be_written) -> task<> {
            wire* const w = co_await join(*at);
            const MemoryRegion room =
                client_memory(s, 8, may_be_written ? every_right : access::local_write);
            const call_options soon{.timeout = std::chrono::milliseconds(20)};
            std::optional<call_operation> asked;
            asked.emplace(at->asks.call(w->client, keep_method, room, room,
                                        by == end::timed_out ? soon : call_options{}));
            asked->start();
            co_await until_kept(*at, 1);
            Endpoint& closer = by == end::asked_by_peer ? w->server : w->client;
            state_operation closing = closer.close().start();
            if (by != end::asked_by_peer && by != end::timed_out) {
              co_await for_a_while(s);
              CHECK_FALSE(closing.done());
            }
            if (by == end::canceled) asked->cancel();
            if (by == end::destroyed) asked.reset();
            if (by == end::aborted) w->client.abort();
            co_await closing;
            if (by == end::destroyed) co_return;
            const result<Response> got = co_await asked->result();
            CHECK(got.code() == (by == end::timed_out  ? errc::timed_out
                                 : by == end::canceled ? errc::canceled
                                                       : errc::connection_reset));
          },
          &p, how, writable);
      p.kept.clear();
    }
  }
}

TEST_CASE(
    "an answer behind more messages than there is room for comes, where the closing side "
    "receives") {
  stage on;
  service p(on, {.eager_bytes = 16'384, .credits = 2}, {.window = 1}, {.window = 1});
  serve_counted(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        wire* const w = co_await join(*at);
        const MemoryRegion room = client_memory(s, 8);
        std::deque<call_operation> calls;
        calls.push_back(at->asks.call(w->client, keep_method, room, room).start());
        co_await until_kept(*at, 1);
        std::deque<message_send_operation> before;
        for (std::uint64_t i = 0; i < 10; ++i) {
          before.push_back(w->server.tag_send(i, at->room.all().first(8)).start());
        }
        const respond_operation said = at->kept[0]->respond(at->room.all().first(8)).start();
        state_operation closing = w->client.close().start();
        co_await for_a_while(s);
        CHECK_FALSE(closing.done());
        for (std::uint64_t i = 0; i < 10; ++i) {
          const result<TagReceived> got = co_await w->client.tag_recv(i, room).result();
          CHECK(got.ok());
        }
        co_await closing;
        const int well = co_await how_many_went_well(&calls);
        CHECK(well == 1);
        const result<TagReceived> late = co_await w->client.tag_recv(1, room).result();
        CHECK(late.code() == errc::not_connected);
        for (message_send_operation& one : before) co_await one;
      },
      &p);
  p.kept.clear();
}

TEST_CASE("closing a connection whose peer serves no requests takes no longer than its hello may") {
  stage on;
  Messages client(on.client());
  Messages server(on.server());
  Requests asks(client, {.hello_timeout = std::chrono::milliseconds(20)});
  on.play(
      [](stage& s, Messages* mine, Messages* theirs, Requests* by) -> task<> {
        wire w = co_await connect_messages(s, *mine, *theirs);
        const MemoryRegion memory = client_memory(s, 8);
        notify_operation told = by->notify(w.client, 1, memory).start();
        co_await w.client.close();
        const result<void> end = co_await told.result();
        CHECK(end.code() == errc::not_supported);
      },
      &client, &server, &asks);
}

namespace {

// Accepts every connection request.
struct reception {
  explicit reception(service& p)
      : of(&p), listener(p.on->server().listen(p.on->server_address()).value()) {}
  service* of;
  Listener listener;
  std::deque<Endpoint> guests;
};

task<> receive_guests(reception* r) {
  for (;;) {
    ConnectionRequest request = co_await r->listener.next();
    Endpoint guest = co_await request.accept(with(r->of->server));
    r->guests.push_back(std::move(guest));
  }
}

}  // namespace

TEST_CASE("K4: closing what is not connected yet carries out words and calls, too") {
  stage on;
  service p(on);
  serve_counted(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        reception r(*at);
        task_context& me = co_await this_task();
        scope beside(me);
        beside.spawn(receive_guests(&r));
        const MemoryRegion from = client_memory(s, 8);
        Endpoint e = s.client().endpoint(s.reach(r.listener), with(at->client)).value();
        std::deque<notify_operation> words;
        for (int i = 0; i < 5; ++i) {
          words.push_back(at->asks.notify(e, count_method, from).start());
        }
        std::deque<call_operation> calls;
        calls.push_back(at->asks.call(e, echo_method, from, from).start());
        co_await e.close();
        const int words_well = co_await how_many_went_well(&words);
        CHECK(words_well == 5);
        const int calls_well = co_await how_many_went_well(&calls);
        CHECK(calls_well == 1);
        CHECK(at->handled == 6);
        beside.cancel();
        co_await beside.join();
      },
      &p);
}

TEST_CASE("K11: words that were started on a loan arrive before its connection makes room") {
  stage on;
  service p(on);
  serve_counted(p);
  on.play(
      [](stage& s, service* at) -> task<> {
        reception a(*at);
        reception b(*at);
        task_context& me = co_await this_task();
        scope beside(me);
        beside.spawn(receive_guests(&a));
        beside.spawn(receive_guests(&b));
        const MemoryRegion from = client_memory(s, 8);
        endpoint_pool_options o;
        o.most = 1;
        o.connection.messages = &at->client;
        EndpointPool pool(s.client(), o);
        std::deque<notify_operation> words;
        {
          auto first = co_await pool.borrow(s.reach(a.listener));
          for (int i = 0; i < many; ++i) {
            words.push_back(at->asks.notify(*first, count_method, from).start());
          }
        }
        {
          auto second = co_await pool.borrow(s.reach(b.listener));
          CHECK(static_cast<bool>(*second));
        }
        const int well = co_await how_many_went_well(&words);
        CHECK(well == many);
        CHECK(pool.counters().evictions == 1);
        CHECK(pool.counters().aborts == 0);
        while (at->handled < many) co_await moment(s);
        co_await pool.close();
        beside.cancel();
        co_await beside.join();
      },
      &p);
}
