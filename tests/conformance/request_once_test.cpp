// A call that may have been served is not repeated (O5), nor reported as one that was never sent
// (O4).
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/request_session.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t method = 1;
constexpr std::size_t bytes = 200;
constexpr std::uint64_t asked = 20;

enum class manner : std::uint8_t { session_call, session_notify, session_notify_acked, plain_call };

endpoint_options impatient() {
  endpoint_options o;
  o.peer_timeout = std::chrono::milliseconds(200);
  o.connect_timeout = std::chrono::milliseconds(100);
  return o;
}

session_options persistent() {
  session_options o;
  o.endpoint = impatient();
  o.most_failures = 50;
  o.longest_pause = std::chrono::milliseconds(50);
  return o;
}

struct both {
  explicit both(stage& s)
      : client_messages(s.client()),
        server_messages(s.server()),
        client(client_messages),
        server(server_messages),
        listener(s.server().listen(s.server_address()).value()),
        accepting(s.loop()) {
    server.serve(method, [this](Request r) { return serve(this, std::move(r)); });
    accepting.spawn(accept_all(this));
  }

  static task<> serve(both* b, Request r) {
    std::uint64_t number = 0;
    std::memcpy(&number, r.data().data(), sizeof number);
    ++b->served[number];
    if (r.wants_response()) static_cast<void>(co_await r.respond().result());
  }
  static task<> accept_all(both* b) {
    for (;;) {
      ConnectionRequest request = co_await b->listener.next();
      connect_options how;
      how.messages = &b->server_messages;
      how.endpoint = impatient();
      result<Endpoint> made = co_await request.accept(how).result();
      if (made) b->connections.push_back(std::move(*made));
    }
  }

  Messages client_messages;
  Messages server_messages;
  Requests client;
  Requests server;
  Listener listener;
  std::deque<Endpoint> connections;
  std::map<std::uint64_t, int> served;
  std::map<std::uint64_t, errc> ended;
  scope accepting;
};

task<> ask(both* b, RequestSession* session, Slice of, std::uint64_t number, manner how) {
  std::memcpy(of.data(), &number, sizeof number);
  errc code = errc::ok;
  try {
    switch (how) {
      case manner::session_call: co_await session->call(method, of, Slice()); break;
      case manner::session_notify: co_await session->notify(method, of); break;
      case manner::session_notify_acked: co_await session->notify_acked(method, of); break;
      case manner::plain_call: co_await b->client.call(*session->endpoint(), method, of); break;
    }
  } catch (const error& e) {
    code = e.condition();
  }
  b->ended[number] = code;
}

// The requests arrive; their acknowledgements and responses do not return.
task<> lose_the_way_back(stage& s, manner how) {
  both b(s);
  RequestSession session(s.client(), b.client_messages, b.client, {s.reach(b.listener)},
                         persistent());
  const MemoryRegion memory = client_memory(s, bytes * (asked + 1));
  co_await ask(&b, &session, memory.all().first(bytes), 0, manner::session_call);
  for (int i = 0; i < 50; ++i) co_await moment(s);
  s.net().cut("server", "client");
  task_context& me = co_await this_task();
  scope asking(me);
  for (std::uint64_t i = 1; i <= asked; ++i) {
    asking.spawn(ask(&b, &session, memory.all().part(i * bytes, bytes), i, how));
  }
  const auto connected = [&session] {
    Endpoint* const over = session.endpoint();
    return over != nullptr && over->state() == endpoint_state::connected;
  };
  while (connected()) co_await sleep_for(std::chrono::milliseconds(1));
  CHECK(b.served.size() > 1);
  s.net().heal_all();
  co_await asking.join();
  for (const auto& [number, times] : b.served) {
    CAPTURE(number);
    CHECK(times == 1);
  }
  for (std::uint64_t i = 1; i <= asked; ++i) {
    CAPTURE(i);
    const errc code = b.ended[i];
    const bool was_served = b.served.count(i) != 0;
    CHECK((code == errc::ok || code == errc::connection_reset ||
           (how == manner::plain_call && code == errc::flushed)));
    if (code == errc::ok) CHECK(was_served);
    if (code == errc::flushed) CHECK_FALSE(was_served);
  }
  co_await session.close();
}

}  // namespace

TEST_CASE(
    "O4, O5: what had left when the connection broke is not asked again, however it was told" *
    only_on(transport::kind::sim, "only simulated networks lose one direction")) {
  for (const bool together : {false, true}) {
    for (const manner how : {manner::session_call, manner::session_notify,
                             manner::session_notify_acked, manner::plain_call}) {
      CAPTURE(together);
      CAPTURE(static_cast<int>(how));
      stage on({.events_with_completions = together});
      on.play(lose_the_way_back, how);
    }
  }
}
