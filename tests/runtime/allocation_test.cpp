// Once warm, the runtime does not use the heap: no coroutine, operation, timer or wait.
#include <cordma/runtime/asio.hpp>
#include <cordma/runtime/channel.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/stop.hpp>
#include <cordma/runtime/timeout.hpp>
#include <cordma/runtime/when_all.hpp>

#include <support/alloc_count.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/post.hpp>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

bool counted() {
  if (counts_allocations && frame_pool::keeps_frames()) return true;
  MESSAGE(
      "not counted: a sanitizer brings its own operator new, or wants every frame from the heap");
  return false;
}

struct tools {
  auto_event automatic;
  mutex m;
  semaphore s{1};
  channel<int> c{2};
};

task<int> child(duration d) {
  co_await sleep_for(d);
  co_return 1;
}
task<void> nap(duration d) { co_await sleep_for(d); }
task<void> set_later(tools* t) {
  co_await yield();
  t->automatic.set();
}
task<void> send_some(tools* t, int n) {
  for (int i = 0; i < n; ++i) co_await t->c.send(i);
}
task<void> receive_some(tools* t, int n) {
  for (int i = 0; i < n; ++i) {
    const int value = co_await t->c.recv();
    if (value != i) co_return;
  }
}

task<void> everything(tools* t) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(set_later(t));
  s.spawn(send_some(t, 10));
  s.spawn(receive_some(t, 10));
  co_await t->automatic.wait();
  co_await s.join();
  co_await when_all(child(1us), nap(2us), sleep_for(1us));
  co_await with_timeout(1h, nap(1us));
  co_await with_timeout(1h, sleep_for(1us));
  std::stop_token nobody;
  co_await with_stop(nobody, nap(1us));
  const result<void> r = co_await sleep_for(1us).result();
  CHECK(r.ok());
  mutex::guard g = co_await t->m.lock();
  co_await t->s.acquire();
  t->s.release();
}
task<std::uint64_t> allocations_of_all(int how_many) {
  std::vector<task<int>> tasks;
  for (int i = 0; i < how_many; ++i) tasks.push_back(child(1us));
  const auto before = allocations();
  const std::vector<int> values = co_await when_all(std::move(tasks));
  CHECK(values.size() == static_cast<std::size_t>(how_many));
  co_return allocations() - before;
}

task<void> rounds(tools* t, int n) {
  for (int i = 0; i < n; ++i) co_await everything(t);
}
}  // namespace

// A canceled operation throws an exception, and an exception allocates memory: when_any and expired
// timeouts are not tested here.
TEST_CASE("no allocation per operation once warm: waits, timers, scopes, deadlines that hold") {
  if (!counted()) return;
  virtual_loop v;
  tools t;
  v.run(rounds(&t, 10));
  const auto before = allocations();
  v.run(rounds(&t, 1000));
  CHECK(allocations() == before);
}

TEST_CASE("when_all of a vector allocates for the values, and once for all its tasks") {
  if (!counted()) return;
  virtual_loop v;
  v.run(allocations_of_all(100));
  CHECK(v.run(allocations_of_all(100)) == 2);
}

TEST_CASE("no allocation per operation once warm: Asio callbacks with a cancellation slot") {
  if (!counted()) return;
  virtual_loop v;
  asio::cancellation_signal signal;
  int calls = 0;
  const auto once = [&v, &signal, &calls] {
    async(v.loop, sleep_for(1us),
          asio::bind_cancellation_slot(signal.slot(), [&calls](std::exception_ptr) { ++calls; }));
    v.settle();
    v.pass(1us);
  };
  // Asio's recycling allocator keeps its memory per thread that runs an io_context.
  asio::io_context io;
  bool warm = false;
  std::uint64_t taken = 0;
  asio::post(io, [&once, &warm, &taken] {
    for (int i = 0; i < 10; ++i) once();
    warm = true;
    const auto before = allocations();
    for (int i = 0; i < 100; ++i) once();
    taken = allocations() - before;
  });
  io.run();
  CHECK(warm);
  CHECK(calls == 110);
  CHECK(taken == 0);
}

TEST_CASE("frames come back to the pool, whatever size, and the count of the living is right") {
  const auto before = frame_pool::outstanding();
  void* small = frame_pool::allocate(1);
  void* edge = frame_pool::allocate(frame_pool::granule);
  void* large = frame_pool::allocate(frame_pool::largest);
  void* beyond = frame_pool::allocate(frame_pool::largest + 1);
  CHECK(frame_pool::outstanding() == before + 4);
  frame_pool::deallocate(small, 1);
  frame_pool::deallocate(large, frame_pool::largest);
  frame_pool::deallocate(beyond, frame_pool::largest + 1);
  frame_pool::deallocate(edge, frame_pool::granule);
  CHECK(frame_pool::outstanding() == before);
  if (!counted()) return;
  const auto count = allocations();
  void* again = frame_pool::allocate(frame_pool::granule - 1);
  CHECK(allocations() == count);
  CHECK((again == small || again == edge));
  frame_pool::deallocate(again, frame_pool::granule - 1);
}
