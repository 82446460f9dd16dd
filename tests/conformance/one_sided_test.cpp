// One-sided means that the target's program has no part in it: it is stopped, and access goes on.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <algorithm>

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
  Listener listener = worker.listen("127.0.0.1:0").value();
  MemoryRegion memory = context.allocate(bytes, every_right).value();
  fill(memory.bytes(), 1);
  parent.tell("127.0.0.1:" + std::to_string(listener.bound().port));
  worker.run(offer(listener, memory));
  return filled(memory.bytes(), 2) ? 0 : 5;
}

task<> access_stopped(Context& context, Worker& worker, child_process& target) {
  const std::string address = target.wire().hear();
  Endpoint e = co_await worker.connect(address);
  const RemoteMemory theirs = RemoteMemory::import(e.peer_data()).value();
  MemoryRegion mine = context.allocate(bytes).value();
  co_await e.read(theirs, mine);  // the first access with a key may ask the target
  CHECK(filled(mine.bytes(), 1));
  std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0});
  target.stop_it();
  if (e.transport() == transport::kind::shm) {
    co_await e.read(theirs, mine);
    CHECK(filled(mine.bytes(), 1));
    fill(mine.bytes(), 2);
    co_await e.write(theirs, mine);
    std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0});
    co_await e.read(theirs, mine);
    CHECK(filled(mine.bytes(), 2));
    target.continue_it();
  } else {
    CHECK(context.find(e.transport())->needs_target_progress);
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

}  // namespace

TEST_CASE("I10: a stopped target process: shm reads and writes on, tcp waits and then goes on" *
          not_on(transport::kind::sim, "the simulator is one process by nature")) {
  child_process target([](wire_to_peer& w) { return target_life(w); });
  Context context(host::only());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(access_stopped(context, worker, target));
  CHECK(target.join() == 0);
}
