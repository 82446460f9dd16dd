#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>

#include <optional>
#include <vector>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

template <class Event>
task<void> pass_and_note(Event* e, int number, std::vector<int>* log) {
  co_await e->wait();
  log->push_back(number);
}

}  // namespace

TEST_CASE("an event lets everybody pass from set to reset, in the order of waiting") {
  virtual_loop v;
  event e;
  std::vector<int> log;
  driven<void> a(v.loop, pass_and_note(&e, 1, &log));
  driven<void> b(v.loop, pass_and_note(&e, 2, &log));
  v.settle();
  CHECK(log.empty());
  e.set();
  CHECK(log.empty());  // only from the ready list
  e.reset();
  v.settle();
  CHECK(log == std::vector<int>{1, 2});
  driven<void> c(v.loop, pass_and_note(&e, 3, &log));
  v.settle();
  CHECK(!c.ended());
  e.set();
  driven<void> d(v.loop, pass_and_note(&e, 4, &log));
  v.settle();
  CHECK(log == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("an auto_event lets one waiter pass per set, and remembers one set") {
  virtual_loop v;
  auto_event e;
  std::vector<int> log;
  e.set();
  e.set();
  driven<void> a(v.loop, pass_and_note(&e, 1, &log));
  driven<void> b(v.loop, pass_and_note(&e, 2, &log));
  driven<void> c(v.loop, pass_and_note(&e, 3, &log));
  v.settle();
  CHECK(log == std::vector<int>{1});
  e.set();
  v.settle();
  CHECK(log == std::vector<int>{1, 2});
  e.set();
  v.settle();
  CHECK(log == std::vector<int>{1, 2, 3});
}

TEST_CASE("a pass given to a waiter that is destroyed goes to the next") {
  virtual_loop v;
  auto_event e;
  std::vector<int> log;
  driven<void> a(v.loop, pass_and_note(&e, 1, &log));
  driven<void> b(v.loop, pass_and_note(&e, 2, &log));
  v.settle();
  e.set();
  a.destroy();
  v.settle();
  CHECK(log == std::vector<int>{2});
}

TEST_CASE("a canceled wait leaves the queue; waiters of a destroyed event get shutdown") {
  virtual_loop v;
  std::optional<event> e(std::in_place);
  std::vector<int> log;
  cancel_source stop;
  driven<void> a(v.loop, pass_and_note(&*e, 1, &log), &stop);
  driven<void> b(v.loop, pass_and_note(&*e, 2, &log));
  v.settle();
  stop.request();
  v.settle();
  CHECK(a.outcome() == errc::canceled);
  e.reset();
  v.settle();
  CHECK(b.outcome() == errc::shutdown);
  CHECK(log.empty());
}

TEST_CASE("an operation may be started ahead, moved, and awaited later") {
  virtual_loop v;
  event e;
  struct local {
    static task<void> start_then_await(event* e, std::vector<int>* log) {
      auto first = e->wait().start();
      auto nap = sleep_for(2ms).start();
      auto moved = std::move(first);
      co_await sleep_for(1ms);
      e->set();
      log->push_back(moved.done() ? 1 : 0);
      co_await moved;
      auto moved_nap = std::move(nap);
      co_await moved_nap;
      log->push_back(2);
    }
    static task<void> start_and_forget(event* e) {
      const auto never_awaited = e->wait().start();
      CHECK(never_awaited.state() == operation_base::phase::queued);
      co_await yield();
    }
  };
  std::vector<int> log;
  v.run(local::start_then_await(&e, &log));
  CHECK(log == std::vector<int>{1, 2});
  CHECK(v.time.now() == time_point(2ms));
  e.reset();
  v.run(local::start_and_forget(&e));
  e.set();
}
