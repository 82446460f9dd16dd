// Once warm, the data path takes nothing from the heap, on every transport.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/frame_pool.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>

using namespace cordma;
using namespace cordma::test;

namespace {

// The transports that every machine has; on a device, the selected one.
std::vector<transport::kind> transports() {
  if (transport_under_test() == transport::kind::verbs) return {transport::kind::verbs};
  return {transport::kind::shm, transport::kind::tcp, transport::kind::sim};
}
constexpr int warm_up = 2000;
constexpr int counted = 20'000;
// A device is tested in an emulated machine.
constexpr int warm_up_on_device = 200;
constexpr int counted_on_device = 200;

struct ground {
  wire& ends;
  Slice out;
  Slice in;
  RemoteSlice remote;
  BufferPool& pool;
};

using round = task<> (*)(ground&);

task<> message(ground& g) {
  recv_operation receiving = g.ends.server.recv(g.in).start();
  co_await g.ends.client.send(g.out);
  co_await receiving;
}

task<> pooled_message(ground& g) {
  message_operation receiving = g.ends.server.recv(g.pool).start();
  co_await g.ends.client.send(g.out);
  const Message m = co_await receiving;
  CHECK(m.info().bytes == g.out.size());
}

task<> late_receive(ground& g) {
  send_operation sending = g.ends.client.send(g.out).start();
  co_await g.ends.server.recv(g.in);
  co_await sending;
}

task<> write_and_flush(ground& g) {
  co_await g.ends.client.write(g.remote, g.out);
  co_await g.ends.client.flush();
}

task<> read_back(ground& g) { co_await g.ends.client.read(g.remote, g.out); }

task<> add_one(ground& g) {
  const RemoteSlice word(g.remote.addr(), 8, g.remote.keys());
  co_await g.ends.client.fetch_add(word, 1);
}

struct named_round {
  const char* name;
  round run;
};
constexpr std::array<named_round, 6> rounds{{{"send and recv", message},
                                             {"send and recv into a pool", pooled_message},
                                             {"send ahead of recv", late_receive},
                                             {"write and flush", write_and_flush},
                                             {"read", read_back},
                                             {"fetch_add", add_one}}};

task<> measure(ground& g, named_round what) {
  const bool on_device = transport_under_test() == transport::kind::verbs;
  const int warm = on_device ? warm_up_on_device : warm_up;
  for (int i = 0; i < warm; ++i) co_await what.run(g);
  const std::uint64_t before = allocations();
  const int rounds_counted = on_device ? counted_on_device : counted;
  for (int i = 0; i < rounds_counted; ++i) co_await what.run(g);
  const std::uint64_t taken = allocations() - before;
  const auto frames = static_cast<std::uint64_t>(rounds_counted);
  // A sanitizer allocates the frame of every round from the heap, to check it.
  CHECK(taken == (frame_pool::keeps_frames() ? 0 : frames));
}

void measure_all(transport::kind over, std::size_t bytes) {
  CAPTURE(transport::name(over));
  CAPTURE(bytes);
  stage s({}, over);
  s.play(
      [](stage& on, std::size_t size) -> task<> {
        wire w = co_await connect(on);
        MemoryRegion out = client_memory(on, size);
        MemoryRegion in = server_memory(on, size);
        const RemoteMemory remote = exported(in);
        BufferPool pool(on.server_context(), size, 4);
        ground g(w, out, in, remote, pool);
        for (const named_round& r : rounds) {
          CAPTURE(r.name);
          co_await measure(g, r);
        }
      },
      bytes);
}

}  // namespace

TEST_CASE("C10, D6: a warm operation takes nothing from the heap [8 B]") {
  for (transport::kind over : transports()) measure_all(over, 8);
}

TEST_CASE("C10, D6: a warm operation takes nothing from the heap [16 KiB]") {
  for (transport::kind over : transports()) measure_all(over, 16 * 1024);
}

namespace {

std::uint64_t round_trips() {
  return sanitized ? 20'000 : rounds_under_test(1'000'000, counted_on_device);
}

// To the server and back. Each direction uses a buffer of a pool and returns it. A separate loop
// avoids even the frame of a coroutine.
task<> there_and_back(Endpoint& client, Endpoint& server, BufferPool& mine, BufferPool& theirs,
                      std::uint64_t times) {
  for (std::uint64_t i = 0; i < times; ++i) {
    message_operation asked = server.recv(theirs).start();
    message_operation answered = client.recv(mine).start();
    Buffer question = mine.take().value();
    *reinterpret_cast<std::uint64_t*>(question.data()) = i;
    send_operation asking = client.send(std::move(question), 8).start();
    Message at_server = co_await asked;
    send_operation answering = server.send(std::move(at_server.buffer()), 8).start();
    const Message at_client = co_await answered;
    co_await asking;
    co_await answering;
    if (*reinterpret_cast<const std::uint64_t*>(at_client.bytes().data()) != i) {
      FAIL_CHECK("answer ", i, " is another");
      co_return;
    }
  }
}

}  // namespace

TEST_CASE(
    "C10: a million round trips (20,000 under a sanitizer) with warm pools take nothing from the "
    "heap") {
  for (const transport::kind over : transports()) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    s.play([](stage& on) -> task<> {
      wire w = co_await connect(on);
      BufferPool mine(on.client_context(), 64, 4);
      BufferPool theirs(on.server_context(), 64, 4);
      co_await there_and_back(w.client, w.server, mine, theirs, warm_up);
      const std::uint64_t before = allocations();
      co_await there_and_back(w.client, w.server, mine, theirs, round_trips());
      const std::uint64_t taken = allocations() - before;
      CHECK(taken <= (frame_pool::keeps_frames() ? 0 : 1));
      CHECK(mine.available() == mine.count());
      CHECK(theirs.available() == theirs.count());
    });
  }
}

namespace {

// One round of waiting, waking by the peer's notice, setting and reading takes `frames` coroutines.
constexpr std::uint64_t frames = 3;
task<> wake_each_time(SyncEvent& event, RemoteSyncEvent& remote, int times) {
  for (int i = 0; i < times; ++i) {
    const std::uint64_t now = co_await event.get();
    sync_operation<std::uint64_t> waits = event.wait_gt(now).start();
    co_await remote.add(1);
    co_await waits;
    co_await remote.set(now);
    const std::uint64_t seen = co_await remote.get();
    if (seen != now) FAIL_CHECK("the counter is ", seen, " and not ", now);
  }
}

}  // namespace

TEST_CASE("E8, E10: a warm SyncEvent takes nothing from the heap, here or at the peer's") {
  for (const transport::kind over : transports()) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    s.play([](stage& on) -> task<> {
      wire w = co_await connect(on);
      SyncEvent event(on.server_context(),
                      {.publisher = sync_location::remote, .subscriber = sync_location::remote});
      event.start(on.server()).value();
      const std::vector<std::byte> blob = event.export_remote().value();
      RemoteSyncEvent remote = RemoteSyncEvent::import(on.client_context(), blob).value();
      remote.start(w.client).value();
      task_context& me = co_await this_task();
      scope listening(me);
      listening.spawn(event.listen(w.server));
      co_await wake_each_time(event, remote, warm_up);
      const std::uint64_t before = allocations();
      co_await wake_each_time(event, remote, counted_on_device);
      const std::uint64_t taken = allocations() - before;
      CHECK(taken <= (frame_pool::keeps_frames() ? 0 : frames * counted_on_device + 1));
      co_await w.client.close();
      co_await listening.join();
    });
  }
}
