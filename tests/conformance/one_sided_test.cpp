// One-sided means that the target's program has no part in it: it is stopped, and access goes on.
#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <algorithm>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 100'000;

context_options under_test() {
  context_options o;
  o.transports = {transport_under_test()};
  return o;
}

task<> offer(Listener& listener, const MemoryRegion& memory) {
  ConnectionRequest request = co_await listener.next();
  const std::vector<std::byte> blob = memory.export_blob().value();
  connect_options with;
  with.private_data = blob;
  Endpoint e = co_await request.accept(with);
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

int target_life(wire_to_peer& parent) {
  Context context(under_test());
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
  co_await e.read(theirs, mine);  // the first access with a key may ask the target
  CHECK(filled(mine.bytes(), 1));
  std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0});
  target.stop_it();
  // What shm needs the target for is memory that is not the library's.
  const bool needs_target = context.find(e.transport())->needs_target_progress;
  if (e.transport() == transport::kind::shm || !needs_target) {
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

}  // namespace

TEST_CASE(
    "I10: a stopped target process: shm and verbs read and write on, tcp waits and then goes on") {
  if (transport_under_test() == transport::kind::sim) {
    MESSAGE("left out: the simulator is one process by nature");
    return;
  }
  child_process target([](wire_to_peer& w) { return target_life(w); });
  Context context(under_test());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(access_stopped(context, worker, target));
  CHECK(target.join() == 0);
}
