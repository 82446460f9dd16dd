// Functions of a Worker for all of its endpoints.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <array>
#include <cstring>
#include <optional>

using namespace cordma;
using namespace cordma::test;

TEST_CASE("K9: a Worker's flush covers all of its endpoints") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::vector<wire> wires;
    for (int i = 0; i < 5; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    constexpr std::size_t size = 20'000;
    MemoryRegion data = client_memory(on, size);
    MemoryRegion target = server_memory(on, 5 * size);
    const RemoteMemory remote = exported(target);
    fill(data.bytes(), 1);
    std::vector<send_operation> writes;
    for (std::size_t i = 0; i < wires.size(); ++i) {
      writes.push_back(wires[i].client.write(remote.slice(i * size, size).value(), data).start());
    }
    co_await on.client().flush();
    for (std::size_t i = 0; i < wires.size(); ++i) {
      CHECK(filled(target.bytes().subspan(i * size, size), 1));
    }
    for (send_operation& op : writes) co_await op;
  });
}

TEST_CASE("D14: a Worker copies memory, refusing what overlaps, differs or is not its own") {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion memory = client_memory(on, 10'000);
    MemoryRegion read_only = client_memory(on, 64, access::local_read);
    MemoryRegion foreign = server_memory(on, 64);
    dice d(3);
    for (int i = 0; i < 200; ++i) {
      const std::size_t size = d.below(5001);
      fill(memory.bytes().first(size), size);
      co_await on.client().copy(memory.all().part(5000, size), memory.all().first(size));
      CHECK(filled(memory.bytes().subspan(5000, size), size));
    }
    fill(memory.bytes(), 4);
    co_await on.client().copy(memory.all().part(5000, 0), memory.all().part(10'000, 0));
    co_await on.client().copy(Slice(), Slice());
    CHECK(filled(memory.bytes(), 4));
    const result<void> overlapping =
        co_await on.client().copy(memory.all().part(10, 64), memory.all().part(73, 64)).result();
    CHECK(overlapping.code() == errc::invalid_value);
    const result<void> touching =
        co_await on.client().copy(memory.all().part(10, 64), memory.all().part(74, 64)).result();
    CHECK(touching.ok());
    const result<void> unequal =
        co_await on.client().copy(memory.all().first(8), memory.all().part(100, 9)).result();
    CHECK(unequal.code() == errc::invalid_value);
    const result<void> forbidden =
        co_await on.client().copy(read_only, memory.all().first(64)).result();
    CHECK(forbidden.code() == errc::not_permitted);
    const result<void> not_mine =
        co_await on.client().copy(memory.all().first(64), foreign).result();
    CHECK(not_mine.code() == errc::invalid_value);
  });
}

TEST_CASE(
    "I6: messages of many endpoints come in one queue, each told apart, and so do their ends") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t peers = 6;
    std::vector<wire> wires;
    for (std::size_t i = 0; i < peers; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    BufferPool pool(on.server_context(), 16, peers * 3);
    SharedReceive arrivals(on.server(), pool, 2);
    for (wire& w : wires) CHECK(arrivals.attach(w.server).ok());
    MemoryRegion out = client_memory(on, peers * 16);
    const std::span<std::uint64_t> words = out.as<std::uint64_t>();
    for (std::uint64_t number = 0; number < 50; ++number) {
      for (std::size_t i = 0; i < peers; ++i) {
        words[i * 2] = i;
        words[i * 2 + 1] = number;
        co_await wires[i].client.send(out.all().part(i * 16, 16));
      }
      for (std::size_t i = 0; i < peers; ++i) {
        Arrival a = co_await arrivals.next();
        REQUIRE(a.ended() == nullptr);
        std::array<std::uint64_t, 2> got{};
        std::memcpy(got.data(), a.message().bytes().data(), 16);
        CHECK(a.from() == &wires[got[0]].server);
        CHECK(got[1] == number);
      }
    }
    arrival_operation withdrawn = arrivals.next().start();
    withdrawn.cancel();
    const result<Arrival> none = co_await withdrawn.result();
    CHECK(none.code() == errc::canceled);
    for (wire& w : wires) co_await w.client.close();
    for (std::size_t i = 0; i < peers; ++i) {
      const Arrival a = co_await arrivals.next();
      REQUIRE(a.ended() != nullptr);
      CHECK(a.ended()->first_cause().code() == errc::not_connected);
    }
    CHECK(arrivals.attached() == 0);
    CHECK(pool.available() == pool.count());
  });
}

TEST_CASE("I6: an endpoint of another loop is not attached") {
  stage s;
  stage elsewhere;
  wire w = elsewhere.play([](stage& on) -> task<wire> {
    wire made = co_await connect(on);
    co_return made;
  });
  BufferPool pool(s.client_context(), 64, 4);
  SharedReceive arrivals(s.client(), pool, 2);
  CHECK(arrivals.attach(w.client).code() == errc::invalid_value);
  CHECK(arrivals.attached() == 0);
  CHECK(pool.available() == 4);
}

TEST_CASE("I6: without buffers receives wait, and go on when there are some again") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    BufferPool pool(on.server_context(), 8, 2);
    SharedReceive arrivals(on.server(), pool, 2);
    CHECK(arrivals.attach(w.server).ok());
    MemoryRegion out = client_memory(on, 8);
    std::vector<send_operation> sends;
    for (int i = 0; i < 10; ++i) sends.push_back(w.client.send(out).start());
    std::vector<Arrival> held;
    for (int i = 0; i < 2; ++i) {
      Arrival a = co_await arrivals.next();
      held.push_back(std::move(a));
    }
    CHECK(pool.available() == 0);
    held.clear();
    for (int i = 2; i < 10; ++i) {
      const Arrival a = co_await arrivals.next();
      CHECK(a.ended() == nullptr);
    }
    for (send_operation& op : sends) co_await op;
  });
}

TEST_CASE("I6: what comes after a SharedReceive is gone goes to receives into a pool, in order") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    BufferPool pool(on.server_context(), 8, 6);
    {
      SharedReceive arrivals(on.server(), pool, 4);
      CHECK(arrivals.attach(w.server).ok());
      // After this, the last receive that was posted is not the last of its list.
      for (std::uint64_t i = 0; i < 3; ++i) {
        co_await w.client.send_inline(std::as_bytes(std::span(&i, 1)));
        const Arrival a = co_await arrivals.next();
        CHECK(a.ended() == nullptr);
      }
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
      send_operation sending = w.client.send_inline(std::as_bytes(std::span(&i, 1))).start();
      const Message got = co_await w.server.recv(pool);
      co_await sending;
      CHECK(*reinterpret_cast<const std::uint64_t*>(got.bytes().data()) == i);
    }
    CHECK(pool.available() >= 3);  // at most three of the four are still posted
  });
}

namespace {

task<> keep_for_a_while(stage* on, Arrival arrival, int* handled) {
  CHECK(arrival.ended() == nullptr);
  for (int i = 0; i < 3; ++i) co_await moment(*on);
  ++*handled;
}

task<> take_all(stage* on, SharedReceive* arrivals, int count, int* handled) {
  task_context& me = co_await this_task();
  scope handlers(me);
  for (int i = 0; i < count; ++i) {
    Arrival a = co_await arrivals->next();
    handlers.spawn(keep_for_a_while(on, std::move(a), handled));
  }
  co_await handlers.join();
}

}  // namespace

TEST_CASE("I6: a buffer that comes back while somebody waits for a message is received into") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    BufferPool pool(on.server_context(), 8, 3);
    SharedReceive arrivals(on.server(), pool, 2);
    CHECK(arrivals.attach(w.server).ok());
    MemoryRegion out = client_memory(on, 8);
    std::vector<send_operation> sends;
    for (int i = 0; i < 40; ++i) sends.push_back(w.client.send(out).start());
    int handled = 0;
    co_await take_all(&on, &arrivals, 40, &handled);
    CHECK(handled == 40);
    for (send_operation& op : sends) co_await op;
  });
}

TEST_CASE(
    "I6: messages come in the order of sending, though more receives wait than fit the queue") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.recv_depth = 2;
    for (const std::uint32_t per_endpoint : {1U, 2U, 3U, 4U, 8U}) {
      CAPTURE(per_endpoint);
      wire w = co_await connect(on, endpoint_options(), shallow);
      BufferPool pool(on.server_context(), 8, 16);
      SharedReceive all(on.server(), pool, per_endpoint);
      CHECK(all.attach(w.server).ok());
      constexpr std::uint64_t count = 12;
      std::vector<send_operation> sending;
      for (std::uint64_t i = 0; i < count; ++i) {
        sending.push_back(w.client.send_inline(std::as_bytes(std::span(&i, 1))).start());
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        Arrival a = co_await all.next();
        REQUIRE(a.ended() == nullptr);
        CHECK(*reinterpret_cast<const std::uint64_t*>(a.message().bytes().data()) == i);
      }
      for (send_operation& op : sending) co_await op;
    }
  });
}

TEST_CASE("I6: a SharedReceive whose Worker is gone attaches nobody" *
          not_on(transport::kind::sim, "its Workers borrow the reactor of their network")) {
  host own;
  BufferPool pool(own.context, 64, 4);
  std::optional<Worker> gone;
  gone.emplace(own.context, reactor_options{.mode = wait_mode::polling});
  SharedReceive arrivals(*gone, pool, 2);
  gone.reset();
  Endpoint none = own.worker.endpoint(own_host() + ":1").value();
  CHECK(arrivals.attach(none).code() == errc::invalid_value);
}

TEST_CASE("I6: a Worker's limit of endpoints is kept, and a place is free when one goes") {
  stage s;
  s.play([](stage& on) -> task<> {
    on.client().limit_endpoints(2);
    wire first = co_await connect(on);
    wire second = co_await connect(on);
    Listener listener = on.server().listen(on.server_address()).value();
    const result<Endpoint> third = co_await on.client().connect(on.reach(listener)).result();
    CHECK(third.code() == errc::full);
    first.client = Endpoint();
    while (on.client().counters().endpoints == 2) co_await moment(on);
    wire again = co_await connect(on);
    CHECK(again.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("K2: thirty endpoints on one Worker do not disturb each other") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::vector<wire> wires;
    for (int i = 0; i < 30; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    MemoryRegion out = client_memory(on, 30 * 1000);
    MemoryRegion in = server_memory(on, 30 * 1000);
    for (std::uint64_t round = 0; round < 20; ++round) {
      std::vector<recv_operation> recvs;
      std::vector<send_operation> sends;
      for (std::size_t i = 0; i < 30; ++i) {
        if (wires[i].client.state() == endpoint_state::closed) continue;
        fill(out.bytes().subspan(i * 1000, 1000), i + round);
        recvs.push_back(wires[i].server.recv(in.all().part(i * 1000, 1000)).start());
        sends.push_back(wires[i].client.send(out.all().part(i * 1000, 1000)).start());
      }
      for (recv_operation& op : recvs) co_await op;
      for (send_operation& op : sends) co_await op;
      for (std::size_t i = round; i < 30; ++i) {
        CHECK(filled(in.bytes().subspan(i * 1000, 1000), i + round));
      }
      wires[round].client.abort();
    }
  });
}
