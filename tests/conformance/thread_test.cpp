// One Context for many threads, each with a separate Worker; and calls that a foreign thread may
// not make.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/endpoint_pool.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/runtime/scope.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t workers = 8;
const std::uint64_t rounds = rounds_under_test(300, 150);
constexpr std::size_t size = 5000;

// Shared by the threads: the port of each listener.
struct ring_of_workers {
  Context context{host::only()};
  std::array<std::atomic<int>, workers> ports{};
  std::atomic<std::uint64_t> wrong{0};
};

// Each round allocates memory from the shared Context, and releases it.
task<> speak(ring_of_workers* ring, Endpoint* to, std::uint64_t number) {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    MemoryRegion out = ring->context.allocate(size).value();
    MemoryRegion in = ring->context.allocate(size).value();
    fill(out.bytes(), number * rounds + round);
    recv_operation answer = to->recv(in).start();
    co_await to->send(out);
    co_await answer;
    if (!filled(in.bytes(), number * rounds + round)) ++ring->wrong;
  }
  co_await to->close();
}

task<> echo(ring_of_workers* ring, Endpoint* from) {
  MemoryRegion room = ring->context.allocate(size).value();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    co_await from->recv(room);
    co_await from->send(room);
  }
  while (from->state() != endpoint_state::closed) co_await from->state_changed();
}

task<> one_of_the_ring(ring_of_workers& ring, Worker& worker, std::size_t number) {
  Listener listener = worker.listen(own_host() + ":0").value();
  ring.ports[number].store(listener.bound().port);
  ring.ports[number].notify_all();
  std::atomic<int>& next = ring.ports[(number + 1) % workers];
  next.wait(0);
  const std::string address = own_host() + ":" + std::to_string(next.load());
  connect_operation connecting = worker.connect(address).start();
  ConnectionRequest request = co_await listener.next();
  Endpoint from = co_await request.accept();
  Endpoint to = co_await connecting;
  task_context& me = co_await this_task();
  scope talk(me);
  talk.spawn(speak(&ring, &to, number));
  talk.spawn(echo(&ring, &from));
  co_await talk.join();
}

}  // namespace

TEST_CASE("D2: eight Workers on eight threads share one Context, and each talks to the next" *
          not_on(transport::kind::sim,
                 "a simulated network lives on one reactor, and so in one thread")) {
  for (const wait_mode mode : waits_under_test({wait_mode::event, wait_mode::adaptive})) {
    CAPTURE(name(mode));
    ring_of_workers ring;
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < workers; ++number) {
      threads.emplace_back([&ring, number, mode] {
        Worker worker(ring.context, reactor_options{.mode = mode});
        worker.run(one_of_the_ring(ring, worker, number));
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(ring.wrong.load() == 0);
  }
}

namespace {

template <class Operation>
errc outcome_of(Operation op) {
  op.start();
  REQUIRE(op.done());
  return op.take_result().code();
}

}  // namespace

TEST_CASE("D2: a call from a foreign thread is no_lock, changes nothing and harms nobody") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    const RemoteMemory remote = exported(in);
    const RemoteSlice word = remote.slice(0, 8).value();
    const std::string address = on.server_address();
    Listener listener = on.server().listen(address).value();
    const endpoint_counters before = w.client.counters();
    std::vector<errc> got;
    std::thread foreign([&] {
      got.push_back(outcome_of(w.client.send(out)));
      got.push_back(outcome_of(w.client.recv(out)));
      got.push_back(outcome_of(w.client.write(remote, out)));
      got.push_back(outcome_of(w.client.read(remote, out)));
      got.push_back(outcome_of(w.client.fetch_add(word, 1)));
      got.push_back(outcome_of(w.client.flush()));
      got.push_back(outcome_of(w.client.state_changed()));
      got.push_back(outcome_of(w.client.close()));
      got.push_back(outcome_of(on.client().connect(address)));
      got.push_back(outcome_of(listener.next()));
      got.push_back(outcome_of(on.client().copy(out, out)));
      got.push_back(on.client().listen(address).code());
      got.push_back(on.client().prepare().code());
      got.push_back(on.client().datagram().code());
    });
    foreign.join();
    CHECK(got.size() == 14);
    for (const errc code : got) CHECK(code == errc::no_lock);
    CHECK(w.client.counters().sends == before.sends);
    CHECK(w.client.counters().recvs == before.recvs);
    CHECK(w.client.state() == endpoint_state::connected);
    fill(out.bytes(), 6);
    recv_operation receiving = w.server.recv(in).start();
    co_await w.client.send(out);
    co_await receiving;
    CHECK(filled(in.bytes(), 6));
  });
}

TEST_CASE("D2: a datagram port refuses a foreign thread, and goes on" *
          not_on({transport::kind::shm, transport::kind::tcp},
                 "this transport carries connections only")) {
  stage s;
  s.play([](stage& on) -> task<> {
    DatagramEndpoint port = on.client().datagram().value();
    MemoryRegion memory = client_memory(on, 64);
    const datagram_peer self = port.self().value();
    const transport::address name{.host = "239.77.0.1", .port = 0};
    std::vector<errc> got;
    std::thread foreign([&] {
      got.push_back(port.self().code());
      got.push_back(port.group(name).code());
      got.push_back(port.join(name).code());
      got.push_back(port.leave(name).code());
      got.push_back(port.bind(":0").code());
      got.push_back(outcome_of(port.resolve(on.server_address())));
      got.push_back(outcome_of(port.send_to(self, memory)));
      got.push_back(outcome_of(port.recv_from(memory)));
      got.push_back(outcome_of(port.close()));
    });
    foreign.join();
    CHECK(got.size() == 9);
    for (const errc code : got) CHECK(code == errc::no_lock);
    CHECK(port.leave(name).code() == errc::not_found);
    CHECK(port.state() == endpoint_state::connected);
    co_return;
  });
}

TEST_CASE("D2: a call from a foreign thread that has no error to return ends the program") {
  using careless_call = void (*)(stage& on, wire& w, Listener& listener);
  constexpr std::array<careless_call, 4> calls{
      [](stage&, wire& w, Listener&) { w.client.fence(); },
      [](stage&, wire& w, Listener&) { const Endpoint::Batch together = w.client.batch(); },
      [](stage&, wire&, Listener& listener) { listener.close(); },
      [](stage& on, wire&, Listener&) { on.client().limit_endpoints(1); },
  };
  for (const careless_call call : calls) {
    child_process careless([call](wire_to_peer&) {
      std::signal(SIGABRT, SIG_DFL);
      stage s;
      s.play(
          [](stage& on, careless_call what) -> task<> {
            wire w = co_await connect(on);
            Listener listener = on.server().listen(on.server_address()).value();
            std::thread foreign([&] { what(on, w, listener); });
            foreign.join();
          },
          call);
      return 0;
    });
    CHECK(careless.join() == 128 + SIGABRT);
  }
}

TEST_CASE("D2: looking at a stream from a foreign thread ends the program") {
  for (const bool consuming : {false, true}) {
    child_process careless([consuming](wire_to_peer&) {
      std::signal(SIGABRT, SIG_DFL);
      stage on;
      on.play(
          [](stage& s, bool consume) -> task<> {
            stream_pair p = co_await open_streams(s);
            std::thread foreign([&] {
              if (consume) {
                p.client.consume(0);
              } else {
                static_cast<void>(p.client.peek());
              }
            });
            foreign.join();
          },
          consuming);
      return 0;
    });
    CHECK(careless.join() == 128 + SIGABRT);
  }
}

namespace {

struct correspondence {
  stage& on;
  Messages& messages;
  Requests& requests;
  Endpoint& endpoint;
  std::optional<TaggedMessage>& held;
  std::unique_ptr<Request>& asked;
  EndpointPool& pool;
};

task<> keep_request(std::unique_ptr<Request>* at, Request r) {
  *at = std::make_unique<Request>(std::move(r));
  co_return;
}

using careless_word = void (*)(correspondence& c);

// The Worker has an unexpected message; the program holds another message, and a request.
task<> correspond(stage& s, careless_word what) {
  Messages client(s.client());
  Messages server(s.server());
  Requests asks(client);
  Requests requests(server);
  std::unique_ptr<Request> asked;
  requests.serve(1, [at = &asked](Request r) { return keep_request(at, std::move(r)); });
  wire w = co_await connect_messages(s, client, server);
  const MemoryRegion memory = client_memory(s, 8);
  co_await w.client.tag_send(7, memory);
  co_await w.client.tag_send(8, memory);
  std::optional<TaggedMessage> held;
  while (!server.tag_probe(8)) co_await moment(s);
  std::optional<TaggedMessage> claimed = server.tag_claim(8);
  held.emplace(std::move(*claimed));
  co_await asks.notify(w.client, 1, memory);
  while (asked == nullptr) co_await moment(s);
  EndpointPool pool(s.server());
  correspondence all{s, server, requests, w.server, held, asked, pool};
  std::thread foreign([&] { what(all); });
  foreign.join();
}

}  // namespace

TEST_CASE(
    "D2: looking for messages, keeping handlers or letting go, from a foreign thread ends the "
    "program") {
  constexpr std::array<careless_word, 9> calls{
      [](correspondence& c) { static_cast<void>(c.messages.tag_probe(7)); },
      [](correspondence& c) { static_cast<void>(c.messages.tag_claim(7)); },
      [](correspondence& c) { static_cast<void>(c.endpoint.tag_probe(7)); },
      [](correspondence& c) { static_cast<void>(c.endpoint.tag_claim(7)); },
      [](correspondence& c) { c.messages.on(1, am_handler()); },
      [](correspondence& c) { c.requests.serve(1, request_handler()); },
      [](correspondence& c) { c.held.reset(); },
      [](correspondence& c) { c.asked.reset(); },
      [](correspondence& c) { static_cast<void>(c.pool.try_borrow("nobody:1")); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    child_process careless([call = calls[i]](wire_to_peer&) {
      std::signal(SIGABRT, SIG_DFL);
      stage s;
      s.play([](stage& on, careless_word what) -> task<> { return correspond(on, what); }, call);
      return 0;
    });
    CHECK(careless.join() == 128 + SIGABRT);
  }
}

TEST_CASE("D2: Requests that are made on a foreign thread are no_lock") {
  stage s;
  Messages messages(s.client());
  errc code = errc::ok;
  std::thread foreign([&] {
    try {
      const Requests elsewhere(messages);
    } catch (const error& e) {
      code = e.why().code();
    }
  });
  foreign.join();
  CHECK(code == errc::no_lock);
  const Requests here(messages);
}

namespace {

// Created on a thread that exits before they are destroyed.
struct orphans {
  host at;
  MemoryRegion memory = at.context.allocate(4096).value();
  BufferPool pool{at.context, 64, 2};
  Listener listener = at.worker.listen(own_host() + ":0").value();
  std::optional<Endpoint> client;
  std::optional<Endpoint> server;
  std::optional<recv_operation> pending;
};

task<> connect_orphans(orphans* o) {
  const std::string to = own_host() + ":" + std::to_string(o->listener.bound().port);
  wire w = co_await connect(o->at.worker, o->listener, to);
  o->client.emplace(std::move(w.client));
  o->server.emplace(std::move(w.server));
}

}  // namespace

TEST_CASE(
    "D2: once no thread runs the Worker, any thread may destroy its handles, in any order, and go "
    "on with it" *
    not_on(transport::kind::sim, "a simulated host belongs to the network of one thread")) {
  for (int order = 0; order < 6; ++order) {
    CAPTURE(order);
    std::unique_ptr<orphans> o;
    std::thread([&o] {
      o = std::make_unique<orphans>();
      o->at.worker.run(connect_orphans(o.get()));
      o->pending.emplace(o->client->recv(o->memory.slice(0, 8).value()).start());
    }).join();
    // The message of this thread arrives: the thread that runs the Worker owns it from then on.
    if (order == 0) {
      o->at.worker.run([](orphans* all) -> task<> {
        co_await all->server->send(all->memory.slice(8, 8).value());
        recv_operation& pending = *all->pending;
        co_await pending;
      }(o.get()));
    }
    if (order == 1) o->client.reset();
    if (order == 2) o->listener = Listener();
    if (order == 3) o->server.reset();
    if (order == 4) o->pending.reset();
    o.reset();
  }
}

namespace {

// Coroutines that wait on each kind of object, and the results they received when it ended.
struct waiting_room {
  host at;
  MemoryRegion memory = at.context.allocate(64).value();
  std::optional<BufferPool> pool{std::in_place, at.context, 64, 1};
  std::optional<Buffer> lent{pool->take().value()};
  std::optional<Messages> messages{std::in_place, at.worker};
  BufferPool room{at.context, 64, 2};
  std::optional<SharedReceive> shared{std::in_place, at.worker, room, 1U};
  scope waiting{at.worker.loop()};
  std::vector<errc> told;
};

template <class Operation>
task<> note_end(waiting_room* in, Operation op) {
  const auto r = co_await op.result();
  in->told.push_back(r.code());
}

task<> wait_for_everything(waiting_room* in) {
  in->waiting.spawn(note_end(in, in->pool->get(in->at.worker.loop())));
  in->waiting.spawn(note_end(in, in->messages->tag_recv(7, in->memory)));
  in->waiting.spawn(note_end(in, in->shared->next()));
  for (int i = 0; i < 3; ++i) co_await yield();
}

}  // namespace

TEST_CASE(
    "D2: once no thread runs the Worker, any thread may destroy what its coroutines wait for" *
    not_on(transport::kind::sim, "a simulated host belongs to the network of one thread")) {
  for (int first = 0; first < 3; ++first) {
    CAPTURE(first);
    std::unique_ptr<waiting_room> room;
    std::thread([&room] {
      room = std::make_unique<waiting_room>();
      room->at.worker.run(wait_for_everything(room.get()));
    }).join();
    for (int i = 0; i < 3; ++i) {
      const int which = (first + i) % 3;
      if (which == 0) room->messages.reset();
      if (which == 1) room->shared.reset();
      if (which == 2) room->pool.reset();
    }
    room->at.worker.run(room->waiting.join());
    CHECK(room->told.size() == 3);
  }
}
