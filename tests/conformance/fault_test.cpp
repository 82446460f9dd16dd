// Conditions that only a simulated network produces on demand: broken completion queues, chance,
// and exact time.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/when_all.hpp>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr const char* injected = "only the simulator injects this";

struct tally {
  int started = 0;
  int done = 0;
  int flushed = 0;
  int other = 0;
};

void count(tally& t, const failure* why) {
  if (why == nullptr) {
    ++t.done;
  } else if (why->code() == errc::flushed && why->first_cause().code() == errc::shutdown) {
    ++t.flushed;
  } else {
    ++t.other;
  }
}

task<> receive_one(Endpoint* at, Slice room, tally* t) {
  ++t->started;
  const result<Received> r = co_await at->recv(room).result();
  count(*t, r.ok() ? nullptr : &r.why());
}

task<> read_one(Endpoint* at, RemoteSlice from, Slice into, tally* t) {
  ++t->started;
  const result<void> r = co_await at->read(from, into).result();
  count(*t, r.ok() ? nullptr : &r.why());
}

task<> send_one(Endpoint* at, Slice data, tally* t) {
  ++t->started;
  const result<void> r = co_await at->send(data).result();
  count(*t, r.ok() ? nullptr : &r.why());
}

// Two connections with more operations in flight than fit; the n-th completion of the client is
// garbage.
task<> break_completion(stage& on, std::uint32_t n) {
  endpoint_options shallow;
  shallow.send_depth = 4;
  wire a = co_await connect(on, shallow);
  wire b = co_await connect(on, shallow);
  wire idle = co_await connect(on, shallow);
  constexpr std::size_t size = 12'000;
  MemoryRegion mine = client_memory(on, size);
  MemoryRegion theirs = server_memory(on, size);
  BufferPool pool(on.client_context(), size, 2);
  const RemoteMemory remote = exported(theirs);
  tally t;
  task_context& me = co_await this_task();
  scope waiting(me);
  {
    message_operation left_behind = idle.client.recv(pool).start();
    left_behind.cancel();  // its request stays in flight without an owner
  }
  std::vector<recv_operation> taken;
  for (int i = 0; i < 6; ++i) {
    for (wire* w : {&a, &b}) {
      taken.push_back(w->server.recv(theirs).start());
      waiting.spawn(read_one(&w->client, remote, mine, &t));
      waiting.spawn(receive_one(&w->client, mine, &t));
      waiting.spawn(send_one(&w->client, mine, &t));
    }
  }
  Listener of_client = on.client().listen("client:0").value();
  next_operation asked = of_client.next().start();
  on.net().corrupt_completion("client", n);
  co_await waiting.join();
  CHECK(t.started == 36);
  CHECK(t.done + t.flushed == t.started);
  CHECK(t.done < static_cast<int>(n));
  CHECK(t.other == 0);
  CHECK(on.client().counters().corrupt_completions == 1);
  CHECK(on.client().counters().inflight == 0);
  CHECK(pool.available() == 2);
  for (wire* w : {&a, &b}) {
    CHECK(w->client.state() == endpoint_state::closed);
    CHECK(w->client.first_cause()->code() == errc::shutdown);
    while (w->server.state() != endpoint_state::closed) co_await moment(on);
    const result<void> late = co_await w->client.send(mine).result();
    CHECK(late.code() == errc::flushed);
  }
  // The server's queue is intact and it serves others; the client's Worker creates nothing new.
  Listener listener = on.server().listen(on.server_address()).value();
  const result<Endpoint> again = co_await on.client().connect(on.reach(listener)).result();
  CHECK(again.code() == errc::unreachable);
  CHECK(on.client().prepare().code() == errc::shutdown);
  const result<ConnectionRequest> nobody = co_await asked.result();
  CHECK(nobody.code() == errc::shutdown);
}

task<> accept_one(Listener* from, Messages* with) {
  connect_options how;
  how.messages = with;
  result<ConnectionRequest> asks = co_await from->next().result();
  if (!asks) co_return;
  const result<Endpoint> made = co_await asks->accept(how).result();
  static_cast<void>(made.ok());
}

task<> connect_without_memory(stage& on, const char* host, std::uint32_t n) {
  Messages client(on.client());
  Messages server(on.server());
  Listener listener = on.server().listen(on.server_address()).value();
  on.net().fail_allocation(host, n);
  {
    task_context& me = co_await this_task();
    scope accepting(me);
    accepting.spawn(accept_one(&listener, &server));
    connect_options how;
    how.messages = &client;
    const result<Endpoint> made = co_await on.client().connect(on.reach(listener), how).result();
    accepting.cancel();
    co_await accepting.join();
  }
  for (int i = 0; i < 100; ++i) co_await moment(on);
  for (const Worker* w : {&on.client(), &on.server()}) {
    CHECK(w->counters().inflight == 0);
    CHECK(w->counters().endpoints == 0);
  }
}

}  // namespace

TEST_CASE("D10: a completion of a request that never was ends every waiter once, with an error" *
          only_on(transport::kind::sim, injected)) {
  for (std::uint32_t n = 1; n <= 6; ++n) {
    CAPTURE(n);
    stage s;
    s.play([](stage& on, std::uint32_t which) -> task<> { co_await break_completion(on, which); },
           n);
  }
}

namespace {

task<std::uint64_t> add_one(Endpoint* at, RemoteSlice word, std::size_t number,
                            std::vector<std::size_t>* finished) {
  const std::uint64_t old = co_await at->fetch_add(word, 1);
  finished->push_back(number);
  co_return old;
}

}  // namespace

TEST_CASE("D4: the values of when_all stand in the order of its arguments, however they complete" *
          only_on(transport::kind::sim, injected)) {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t width = 8;
    constexpr std::uint64_t rounds = 50;
    CAPTURE(on.net().seed());
    std::vector<wire> wires;
    for (std::size_t i = 0; i < width; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    on.net().set_links({.jitter = std::chrono::microseconds(20), .loss = 0.01, .reorder = 0.5});
    MemoryRegion words = server_memory(on, width * 8);
    const RemoteMemory remote = exported(words);
    for (std::size_t i = 0; i < width; ++i) words.as<std::uint64_t>()[i] = i * 1000;
    std::uint64_t shuffled = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::vector<std::size_t> finished;
      std::vector<task<std::uint64_t>> tasks;
      for (std::size_t i = 0; i < width; ++i) {
        const RemoteSlice word = remote.slice(i * 8, 8).value();
        tasks.push_back(add_one(&wires[i].client, word, i, &finished));
      }
      const std::vector<std::uint64_t> values = co_await when_all(std::move(tasks));
      for (std::size_t i = 0; i < width; ++i) CHECK(values[i] == i * 1000 + round);
      for (std::size_t i = 0; i < width; ++i) shuffled += finished[i] != i ? 1U : 0U;
    }
    CHECK(shuffled > rounds);  // the network did reorder
  });
}

TEST_CASE("I8: a message without a receive fails after exactly rnr_retry times rnr_timer" *
          only_on(transport::kind::sim, injected)) {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr duration round_trip = std::chrono::microseconds(10);
    on.net().set_links({.delay = round_trip / 2});
    for (std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{6}}) {
      for (duration timer :
           {duration(std::chrono::milliseconds(1)), duration(std::chrono::microseconds(640))}) {
        CAPTURE(static_cast<int>(retries));
        endpoint_options o;
        o.rnr_retry = retries;
        o.rnr_timer = timer;
        wire w = co_await connect(on, o);
        MemoryRegion out = client_memory(on, 8);
        const time_point start = on.loop().now();
        const result<void> r = co_await w.client.send(out).result();
        // Each attempt takes a round trip; the timer sets the waits between them.
        CHECK(on.loop().now() - start == retries * timer + (retries + 1) * round_trip);
        REQUIRE_FALSE(r.ok());
        CHECK(r.why().code() == transport::to_errc(transport::wc_status::rnr_retry_exc_err));
        CHECK(w.client.state() == endpoint_state::closed);
      }
    }
  });
}

TEST_CASE("G3: where there is no memory for a connection of Messages, nothing of it stays" *
          only_on(transport::kind::sim, injected)) {
  for (const char* const host : {"client", "server"}) {
    std::uint32_t n = 1;
    for (bool came = true; came && n < 20; ++n) {
      CAPTURE(host);
      CAPTURE(n);
      stage s;
      s.play(
          [](stage& on, const char* where, std::uint32_t which) -> task<> {
            co_await connect_without_memory(on, where, which);
          },
          host, n);
      came = s.net().faults().failed_allocations != 0;
    }
    CHECK(n > 4);
  }
}
