// One-sided access needs no action of the target's program: it is stopped, and access continues.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <algorithm>
#include <string>

#include <time.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 100'000;

task<> offer(Listener& listener, const MemoryRegion& memory) {
  ConnectionRequest request = co_await listener.next();
  const std::vector<std::byte> blob = memory.export_blob().value();
  connect_options with;
  with.private_data = blob;
  Endpoint e = co_await request.accept(with);
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

int target_life(wire_to_peer& parent) {
  Context context(host::only());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  Listener listener = worker.listen(own_host() + ":0").value();
  MemoryRegion memory = context.allocate(bytes, every_right).value();
  fill(memory.bytes(), 1);
  parent.tell(own_host() + ":" + std::to_string(listener.bound().port));
  worker.run(offer(listener, memory));
  return filled(memory.bytes(), 2) ? 0 : 5;
}

task<> access_stopped(Context& context, Worker& worker, child_process& target) {
  const std::string address = target.wire().hear();
  Endpoint e = co_await worker.connect(address);
  const RemoteMemory theirs = RemoteMemory::import(e.peer_data()).value();
  MemoryRegion mine = context.allocate(bytes).value();
  co_await e.read(theirs, mine);  // the first access with a key may send a query to the target
  CHECK(filled(mine.bytes(), 1));
  std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0});
  target.stop_it();
  if (e.abilities().target_idle()) {
    co_await e.read(theirs, mine);
    CHECK(filled(mine.bytes(), 1));
    fill(mine.bytes(), 2);
    co_await e.write(theirs, mine);
    std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0});
    co_await e.read(theirs, mine);
    CHECK(filled(mine.bytes(), 2));
    target.continue_it();
  } else {
    send_operation reading = e.read(theirs, mine).start();
    for (int i = 0; i < 1000; ++i) co_await yield();
    CHECK_FALSE(reading.done());
    target.continue_it();
    co_await reading;
    CHECK(filled(mine.bytes(), 1));
    fill(mine.bytes(), 2);
    co_await e.write(theirs, mine);
    co_await e.flush();
  }
  co_await e.close();
}

const std::uint64_t accesses = rounds_under_test(2000);

// Activity of the target's thread between two messages.
struct effort {
  std::uint64_t turns = 0;
  std::uint64_t wakeups = 0;
  std::int64_t cpu_ns = 0;
};

effort so_far(reactor& loop) {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return {.turns = loop.counters().turns,
          .wakeups = loop.counters().wakeups,
          .cpu_ns = t.tv_sec * 1'000'000'000LL + t.tv_nsec};
}

// Sleeps when it has nothing to do; the messages mark the begin and the end of the accesses.
task<effort> be_accessed(Context& context, Worker& worker, Listener& listener) {
  ConnectionRequest request = co_await listener.next();
  MemoryRegion memory = context.allocate(bytes, every_right).value();
  MemoryRegion room = context.allocate(8).value();
  const std::vector<std::byte> blob = memory.export_blob().value();
  connect_options with;
  with.private_data = blob;
  with.endpoint.peer_timeout = std::chrono::hours(1);  // no probing, which would be counted
  Endpoint e = co_await request.accept(with);
  co_await e.recv(room);
  co_await e.send(room);
  const effort before = so_far(worker.loop());
  co_await e.recv(room);
  const effort after = so_far(worker.loop());
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
  co_return effort{.turns = after.turns - before.turns,
                   .wakeups = after.wakeups - before.wakeups,
                   .cpu_ns = after.cpu_ns - before.cpu_ns};
}

int measured_life(wire_to_peer& parent) {
  Context context(host::only());
  Worker worker(context, reactor_options{.mode = wait_mode::event});
  Listener listener = worker.listen(own_host() + ":0").value();
  parent.tell(own_host() + ":" + std::to_string(listener.bound().port));
  const effort e = worker.run(be_accessed(context, worker, listener));
  parent.tell(std::to_string(e.turns));
  parent.tell(std::to_string(e.wakeups));
  parent.tell(std::to_string(e.cpu_ns));
  return 0;
}

task<> access_often(Context& context, Worker& worker, std::string address) {
  connect_options patient;
  patient.endpoint.peer_timeout = std::chrono::hours(1);
  Endpoint e = co_await worker.connect(std::move(address), patient);
  const RemoteMemory theirs = RemoteMemory::import(e.peer_data()).value();
  MemoryRegion mine = context.allocate(bytes).value();
  const RemoteSlice word = theirs.slice(0, 8).value();
  co_await e.read(theirs, mine);  // the first access with a key may send a query to the target
  co_await e.send(mine.all().first(8));
  co_await e.recv(mine.all().first(8));
  for (std::uint64_t i = 0; i < accesses; ++i) {
    co_await e.write(theirs, mine);
    co_await e.read(theirs, mine);
    co_await e.fetch_add(word, 1);
  }
  co_await e.send(mine.all().first(8));
  co_await e.close();
}

}  // namespace

TEST_CASE(
    "L9: reads, writes and atomics cost the target's thread nothing on shm and verbs, a turn each "
    "on tcp" *
    not_on({transport::kind::sim, transport::kind::test}, "both sides are one thread by nature")) {
  child_process target([](wire_to_peer& w) { return measured_life(w); });
  Context context(host::only());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(access_often(context, worker, target.wire().hear()));
  const std::uint64_t turns = std::stoull(target.wire().hear());
  const std::uint64_t wakeups = std::stoull(target.wire().hear());
  const std::string cpu_ns = target.wire().hear();
  MESSAGE("for " << 3 * accesses << " accesses the target's thread made " << turns
                 << " turns, woke " << wakeups << " times and used " << cpu_ns << " ns");
  CHECK(target.join() == 0);
  if (!context.find(transport_under_test())->target_idle()) {
    // Each awaited request takes at least one pass of the target, which serves it.
    CHECK(turns >= 2 * accesses);
  } else {
    // It goes to sleep after the first mark, and wakes for the second.
    CHECK(wakeups <= 3);
    CHECK(turns <= 20);
  }
}

TEST_CASE(
    "I10: a stopped target process: shm and verbs read and write on, tcp waits and then goes on" *
    not_on({transport::kind::sim, transport::kind::test}, "both sides are one process by nature")) {
  child_process target([](wire_to_peer& w) { return target_life(w); });
  Context context(host::only());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(access_stopped(context, worker, target));
  CHECK(target.join() == 0);
}
