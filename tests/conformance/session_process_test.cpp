// Sessions of requests to a separate server process that is killed.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/request_session.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t method = 1;
constexpr std::size_t bytes = 50'000;
constexpr std::uint32_t window = 2;  // maximum number of requests at the server at a time

struct server {
  server(host& h, bool keeps)
      : room(h.context.allocate(bytes, every_right).value()),
        messages(h.worker),
        requests(messages, {.window = window}),
        keeps_all(keeps) {
    requests.serve(method, [this](Request r) { return serve(this, std::move(r)); });
  }

  static task<> serve(server* self, Request r) {
    co_await r.read(self->room.all());
    if (self->keeps_all) {
      self->kept.push_back(std::make_unique<Request>(std::move(r)));
      co_return;
    }
    co_await r.respond(self->room.all().first(r.size()));
  }

  MemoryRegion room;
  Messages messages;
  Requests requests;
  bool keeps_all;
  std::vector<std::unique_ptr<Request>> kept;
  std::deque<Endpoint> connections;
};

task<> say_when_full(server* s, wire_to_peer* parent) {
  while (s->kept.size() < window) co_await yield();
  parent->tell("full");
}

// Accepts connections until it is killed.
task<int> accept_all(host& h, wire_to_peer& parent, std::string port, bool keeps) {
  server s(h, keeps);
  Listener listener = h.worker.listen(own_host() + ":" + port).value();
  parent.tell(std::to_string(listener.bound().port));
  task_context& me = co_await this_task();
  scope beside(me);
  beside.spawn(say_when_full(&s, &parent));
  connect_options with;
  with.messages = &s.messages;
  for (;;) {
    ConnectionRequest request = co_await listener.next();
    Endpoint made = co_await request.accept(with);
    s.connections.push_back(std::move(made));
  }
}

int server_life(wire_to_peer& parent, bool keeps) {
  const std::string port = parent.hear();
  host h;
  return h.worker.run(accept_all(h, parent, port, keeps));
}

struct asked {
  bool done = false;
  errc code = errc::ok;
};

task<> ask(RequestSession* session, Slice request, Slice room, session_call_options how, asked* a) {
  try {
    co_await session->call(method, request, room, how);
  } catch (const error& e) {
    a->code = e.condition();
  }
  a->done = true;
}

task<> outlive(host& h, child_process& first, child_process& second) {
  first.wire().tell("0");
  const std::string port = first.wire().hear();
  Messages messages(h.worker);
  Requests requests(messages);
  session_options o;
  o.first_pause = std::chrono::milliseconds(1);
  o.longest_pause = std::chrono::milliseconds(20);
  o.most_failures = 10'000;  // enough until the second server has started
  RequestSession session(h.worker, messages, requests, {own_host() + ":" + port}, o);
  const MemoryRegion request = h.context.allocate(bytes, every_right).value();
  fill(request.bytes(), 7);
  std::vector<MemoryRegion> rooms;
  for (int i = 0; i < 3; ++i) rooms.push_back(h.context.allocate(bytes, every_right).value());
  asked once;
  asked again;
  asked waits;  // waits for a slot when the server is killed
  session_call_options repeatable;
  repeatable.idempotent = true;
  task_context& me = co_await this_task();
  scope beside(me);
  beside.spawn(ask(&session, request.all(), rooms[0].all(), {}, &once));
  beside.spawn(ask(&session, request.all(), rooms[1].all(), repeatable, &again));
  while (!first.wire().hear_now()) co_await yield();
  beside.spawn(ask(&session, request.all(), rooms[2].all(), {}, &waits));
  for (int i = 0; i < 10; ++i) co_await yield();
  first.kill();
  while (!once.done) co_await yield();
  CHECK(once.code == errc::connection_reset);
  CHECK_FALSE(again.done);
  CHECK_FALSE(waits.done);
  second.wire().tell(port);
  co_await beside.join();
  CHECK(again.code == errc::ok);
  CHECK(waits.code == errc::ok);
  CHECK(filled(rooms[1].bytes(), 7));
  CHECK(filled(rooms[2].bytes(), 7));
  CHECK(session.counters().connects == 2);
  CHECK(session.counters().retries == 2);
  co_await session.close();
}

}  // namespace

TEST_CASE(
    "O5: a server is killed with -9 and another begins at its address: what had not left is asked "
    "again" *
    not_on(transport::kind::sim, "the simulator is one process by nature")) {
  for (const wait_mode mode : waits_under_test({wait_mode::polling, wait_mode::event})) {
    CAPTURE(name(mode));
    child_process first([](wire_to_peer& w) { return server_life(w, true); });
    child_process second([](wire_to_peer& w) { return server_life(w, false); });
    host h(mode);
    h.worker.run(outlive(h, first, second));
  }
}
