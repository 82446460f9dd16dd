// Two sides with Requests, and handlers of the usual kinds, for the tests of requests.
#pragma once

#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <doctest/doctest.h>

#include <cordma/net/requests.hpp>
#include <cordma/runtime/event.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <vector>

namespace cordma::test {

using sizes = std::initializer_list<std::size_t>;

// Space for requests of 8192 bytes beside their header.
inline constexpr message_options roomy{.eager_bytes = 16'384};

struct service {
  explicit service(stage& s, message_options m = roomy, request_options o = {},
                   request_options of_server = {})
      : on(&s),
        client(s.client(), m),
        server(s.server(), m),
        asks(client, o),
        answers(server, of_server) {}
  stage* on;
  MemoryRegion room;  // memory of the server
  Messages client;
  Messages server;
  Requests asks;
  Requests answers;
  std::deque<wire> wires;
  std::vector<std::unique_ptr<Request>> kept;
  int handled = 0;
  int running = 0;
  int most_running = 0;
  event gate;
};

inline task<wire*> join(service& p) {
  stage& on = *p.on;
  wire w = co_await connect_messages(on, p.client, p.server);
  p.wires.push_back(std::move(w));
  co_return &p.wires.back();
}

// ---- handlers ----

inline constexpr std::uint16_t echo_method = 1;
inline constexpr std::uint16_t keep_method = 2;
inline constexpr std::uint16_t gated_method = 3;
inline constexpr std::uint16_t length_method = 4;

// Responds with the bytes of the request.
inline task<> echo(service* p, Request r) {
  if (r.data().size() == r.size()) {
    std::ranges::copy(r.data(), p->room.data());
  } else {
    co_await r.read(p->room.all());
  }
  co_await r.respond(p->room.all().first(r.size()));
  ++p->handled;
}

inline task<> keep(service* p, Request r) {
  p->kept.push_back(std::make_unique<Request>(std::move(r)));
  co_return;
}

// Completes when the gate is open.
inline task<> wait_at_gate(service* p, Request) {
  p->most_running = std::max(p->most_running, ++p->running);
  co_await p->gate.wait();
  --p->running;
  ++p->handled;
}

// Responds with as many bytes as the request contains as a number.
inline task<> answer_length(service* p, Request r) {
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, r.data().data(), sizeof(wanted));
  fill(p->room.bytes().first(wanted), wanted);
  const result<void> done = co_await r.respond(p->room.all().first(wanted)).result();
  CHECK(done.code() == (wanted > r.room() ? errc::truncated : errc::ok));
  const result<void> again = co_await r.respond().result();
  CHECK(again.code() == errc::bad_state);
  ++p->handled;
}

inline void serve(service& p, std::size_t room = 0) {
  if (room != 0) p.room = server_memory(*p.on, room);
  service* const at = &p;
  p.answers.serve(echo_method, [at](Request r) { return echo(at, std::move(r)); });
  p.answers.serve(keep_method, [at](Request r) { return keep(at, std::move(r)); });
  p.answers.serve(gated_method, [at](Request r) { return wait_at_gate(at, std::move(r)); });
  p.answers.serve(length_method, [at](Request r) { return answer_length(at, std::move(r)); });
}

inline task<> until_handled(service& p, int count) {
  while (p.handled < count) co_await moment(*p.on);
}

inline task<> until_kept(service& p, std::size_t count) {
  while (p.kept.size() < count) co_await moment(*p.on);
}

inline task<> for_a_while(stage& s) {
  for (int i = 0; i < 500; ++i) co_await moment(s);
}

}  // namespace cordma::test
