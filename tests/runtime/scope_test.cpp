#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

task<void> note_after(duration d, int number, std::vector<int>* log) {
  co_await sleep_for(d);
  log->push_back(number);
}

task<void> throw_after(duration d, std::string what) {
  co_await sleep_for(d);
  throw std::runtime_error(what);
}

task<void> wait_and_note_cancel(event* e, int* canceled) {
  const result<void> r = co_await e->wait().result();
  if (r.code() == errc::canceled) ++*canceled;
  r.value();
}

// Ends only some time after it was canceled.
task<void> end_late(duration d, bool* ended) {
  try {
    co_await sleep_for(1h);
  } catch (const error&) {
    *ended = false;
  }
  task_context& me = co_await this_task();
  me.set_cancellation(nullptr);
  co_await sleep_for(d);
  *ended = true;
}

task<void> three_side_by_side(std::vector<int>* log) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(note_after(3ms, 3, log));
  s.spawn(note_after(1ms, 1, log));
  s.spawn(note_after(2ms, 2, log));
  CHECK(s.running() == 3);
  co_await s.join();
  log->push_back(4);
}

}  // namespace

TEST_CASE("a scope is joined when the last of its tasks has ended") {
  virtual_loop v;
  std::vector<int> log;
  v.run(three_side_by_side(&log));
  CHECK(log == std::vector<int>{1, 2, 3, 4});
  CHECK(v.time.now() == time_point(3ms));
}

namespace {
task<void> one_fails(event* e, int* canceled, bool* late) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(wait_and_note_cancel(e, canceled));
  s.spawn(throw_after(2ms, "first"));
  s.spawn(end_late(10ms, late));
  s.spawn(throw_after(3ms, "never"));
  co_await s.join();
}
}  // namespace

TEST_CASE("the first error cancels the siblings, is thrown by join, and only when all have ended") {
  virtual_loop v;
  event e;
  int canceled = 0;
  bool late = false;
  CHECK_THROWS_WITH(v.run(one_fails(&e, &canceled, &late)), "first");
  CHECK(canceled == 1);
  CHECK(late);
  CHECK(v.time.now() == time_point(12ms));
}

namespace {
task<void> cancel_own_children(event* e, int* canceled) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(wait_and_note_cancel(e, canceled));
  s.spawn(wait_and_note_cancel(e, canceled));
  co_await yield();
  s.cancel();
  s.spawn(wait_and_note_cancel(e, canceled));
  co_await s.join();
}

task<void> join_children(event* e, int* canceled) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(wait_and_note_cancel(e, canceled));
  s.spawn(wait_and_note_cancel(e, canceled));
  co_await s.join();
}
}  // namespace

TEST_CASE("a scope that cancels its own tasks joins without an error") {
  virtual_loop v;
  event e;
  int canceled = 0;
  v.run(cancel_own_children(&e, &canceled));
  CHECK(canceled == 3);
}

TEST_CASE("cancellation of the task above flows into the scope and comes back as canceled") {
  virtual_loop v;
  event e;
  int canceled = 0;
  cancel_source above;
  driven<void> d(v.loop, join_children(&e, &canceled), &above);
  v.settle();
  CHECK(!d.ended());
  above.request();
  CHECK(canceled == 0);  // no coroutine resumes inside the request
  v.settle();
  CHECK(d.outcome() == errc::canceled);
  CHECK(canceled == 2);
}

TEST_CASE("a suspended parent that is destroyed takes its tasks with it, wherever they stand") {
  virtual_loop v;
  event e;
  int canceled = 0;
  SUBCASE("before they began") {
    driven<void> d(v.loop, join_children(&e, &canceled));
    v.loop.turn();
    d.destroy();
  }
  SUBCASE("while they wait") {
    driven<void> d(v.loop, join_children(&e, &canceled));
    v.settle();
    d.destroy();
  }
  SUBCASE("between the event and their next step") {
    driven<void> d(v.loop, join_children(&e, &canceled));
    v.settle();
    e.set();
    d.destroy();
  }
  v.settle();
  e.set();
  v.settle();
  CHECK(canceled == 0);
}

namespace {
task<void> body_of_scope(scope& s, std::unique_ptr<int> n, std::vector<int>* log) {
  s.spawn(note_after(2ms, *n + 1, log));
  co_await sleep_for(1ms);
  log->push_back(*n);
}
task<void> failing_body(scope& s, event* e, int* canceled) {
  s.spawn(wait_and_note_cancel(e, canceled));
  co_await sleep_for(1ms);
  throw std::runtime_error("body");
}
task<void> waiting_body(scope& s, event* e, int* canceled) {
  s.spawn(throw_after(1ms, "child"));
  co_await wait_and_note_cancel(e, canceled);
}
}  // namespace

TEST_CASE("in_scope joins what its body spawned, errors of the body included") {
  virtual_loop v;
  event e;
  int canceled = 0;
  std::vector<int> log;
  v.run(in_scope(body_of_scope, std::make_unique<int>(1), &log));
  CHECK(log == std::vector<int>{1, 2});
  CHECK_THROWS_WITH(v.run(in_scope(failing_body, &e, &canceled)), "body");
  CHECK(canceled == 1);
  CHECK_THROWS_WITH(v.run(in_scope(waiting_body, &e, &canceled)), "child");
  CHECK(canceled == 2);
}

TEST_CASE("a scope without a coroutine around it lives on its reactor") {
  virtual_loop v;
  std::vector<int> log;
  scope s(v.loop);
  s.spawn(note_after(1ms, 1, &log));
  v.settle();
  CHECK(log.empty());
  v.pass(1ms);
  CHECK(log.size() == 1);
  CHECK(s.running() == 0);
  v.run(s.join());
}
