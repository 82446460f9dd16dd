// Reports of a reactor: suspended coroutines with their callers, timers, descriptors. A report is
// bounded, and complete or refused.
#include "virtual_loop.hpp"

#include <cordma/runtime/dump_writer.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/resume_on.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>
#include <cordma/runtime/when_all.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

std::string report_of(reactor& r, unsigned lines = 200) {
  std::string room(1 << 16, '\0');
  dump_writer out(std::span(room.data(), room.size()), lines);
  r.dump(out);
  room.resize(out.size());
  return room;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string at_line(int line) { return " at runtime/dump_test.cpp:" + std::to_string(line); }

long lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

int inner_line = 0;
int middle_line = 0;

task<> inner(event* e) {
  inner_line = __LINE__ + 1;
  co_await e->wait();
}

task<> middle(event* e) {
  middle_line = __LINE__ + 1;
  co_await inner(e);
}

}  // namespace

TEST_CASE("a report names each suspended coroutine and its callers, with file and line") {
  virtual_loop v;
  event never_set;
  driven waiting(v.loop, middle(&never_set));
  v.settle();
  const std::string text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "waits: inner" + at_line(inner_line)), text);
  CHECK(has(text, "   in: middle" + at_line(middle_line)));
  CHECK(has(text, "tasks: 1\n"));
  never_set.set();
  v.settle();
  CHECK(waiting.ended());
  CHECK(has(report_of(v.loop), "tasks: 0\n"));
}

namespace {

int second_line = 0;

task<> twice(event* first, event* second) {
  co_await inner(first);
  second_line = __LINE__ + 1;
  const result<void> r = co_await second->wait().result();
  (void)r;
}

}  // namespace

TEST_CASE("a coroutine that goes on is reported where it waits next") {
  virtual_loop v;
  event first;
  event second;
  driven waiting(v.loop, twice(&first, &second));
  v.settle();
  CHECK(has(report_of(v.loop), "waits: inner"));
  first.set();
  v.settle();
  const std::string text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "waits: twice" + at_line(second_line)), text);
  CHECK(!has(text, "inner"));
  second.set();
  v.settle();
}

namespace {

int all_line = 0;

task<> both(event* a, event* b) {
  all_line = __LINE__ + 1;
  co_await when_all(middle(a), inner(b));
}

}  // namespace

TEST_CASE("a task of when_all is followed to the task that waits for all of them") {
  virtual_loop v;
  event a;
  event b;
  driven waiting(v.loop, both(&a, &b));
  v.settle();
  const std::string text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "tasks: 3\n"), text);
  // Both chains end at the caller; it has no separate chain, since it waits for them.
  std::size_t chains = 0;
  for (std::size_t at = 0; (at = text.find("waits: ", at)) != std::string::npos; ++at) ++chains;
  CHECK(chains == 2);
  const std::size_t first = text.find("in: both" + at_line(all_line));
  REQUIRE(first != std::string::npos);
  CHECK(text.find("in: both", first + 1) != std::string::npos);
  a.set();
  b.set();
  v.settle();
}

namespace {

task<> many(event* e, int tasks) {
  task_context& me = co_await this_task();
  scope all(me);
  for (int i = 0; i < tasks; ++i) all.spawn(inner(e));
  co_await all.join();
}

template <int N>
task<> one_of_many(event* e) {
  co_await e->wait();
}

template <int... Ns>
void start_each(scope& s, event* e, std::integer_sequence<int, Ns...>) {
  (s.spawn(one_of_many<Ns>(e)), ...);
}

}  // namespace

TEST_CASE("tasks that wait alike are listed once, with their number") {
  virtual_loop v;
  event never_set;
  driven waiting(v.loop, many(&never_set, 10'000));
  v.settle();
  const std::string text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "(10000 tasks alike)"), text);
  CHECK(has(text, "tasks: 10001\n"));
  CHECK(lines_of(text) < 12);
  never_set.set();
  while (!waiting.ended()) v.loop.turn();
}

TEST_CASE("a report has at most 200 lines; the tasks past them are counted") {
  virtual_loop v;
  event never_set;
  {
    scope all(v.loop);
    start_each(all, &never_set, std::make_integer_sequence<int, 250>());
    v.settle();
    const std::string text = report_of(v.loop);
    CHECK(lines_of(text) <= 200);
    CHECK_MESSAGE(has(text, "more tasks wait\n"), text);
    CHECK(lines_of(report_of(v.loop, 5)) == 5);
  }
  v.settle();
}

TEST_CASE("a list that was just being changed is reported, and not walked") {
  virtual_loop v;
  event never_set;
  driven first(v.loop, inner(&never_set));
  driven second(v.loop, middle(&never_set));
  v.settle();
  // The state that a signal finds between the two stores of an insertion: the second node does not
  // point back yet.
  running_task* last = nullptr;
  CHECK(v.loop.tasks().look_through([&last](running_task& t) { last = &t; }));
  void* const node = static_cast<list_node*>(last);
  void* before = nullptr;
  std::memcpy(&before, node, sizeof before);
  std::memcpy(node, static_cast<const void*>(&node), sizeof node);
  const std::string text = report_of(v.loop);
  std::memcpy(node, static_cast<const void*>(&before), sizeof before);
  CHECK_MESSAGE(has(text, "tasks: the list was just being changed\n"), text);
  CHECK(!has(text, "waits:"));
  CHECK(has(report_of(v.loop), "tasks: 2\n"));
  never_set.set();
  v.settle();
}

namespace {

task<> sleeper_task(duration time) { co_await sleep_for(time); }

class silent_source final : public poller {
 public:
  std::size_t poll() noexcept override { return 0; }
  arm_state arm() noexcept override { return arm_state::armed; }
  [[nodiscard]] int wait_fd() const noexcept override { return fds_[0]; }
  [[nodiscard]] const char* name() const noexcept override { return "silent"; }
  silent_source() { REQUIRE(::pipe(fds_.data()) == 0); }
  ~silent_source() override {
    ::close(fds_[0]);
    ::close(fds_[1]);
  }

 private:
  std::array<int, 2> fds_{};
};

}  // namespace

TEST_CASE("a report counts timers and names the descriptors that end a wait") {
  virtual_loop v;
  silent_source source;
  v.loop.add(source).value();
  std::vector<std::unique_ptr<driven<void>>> sleeping;
  for (int i = 1; i <= 100; ++i) {
    sleeping.push_back(std::make_unique<driven<void>>(v.loop, sleeper_task(i * 1s)));
  }
  v.settle();
  std::string text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "timers: 100, the first due in 1000 ms"), text);
  CHECK(has(text, ", silent " + std::to_string(source.wait_fd()) + "\n"));
  v.pass(50s);
  text = report_of(v.loop);
  CHECK_MESSAGE(has(text, "timers: 50, "), text);
  v.pass(50s);
  CHECK(has(report_of(v.loop), "timers: 0;"));
  v.loop.remove(source);
}

namespace {

task<> move_and_wait(reactor* to, event* e) {
  co_await resume_on(*to);
  co_await e->wait();
}

}  // namespace

TEST_CASE("a task that has moved to another reactor is reported there") {
  virtual_loop v;
  reactor other({.mode = wait_mode::polling, .time = &v.time});
  event never_set;
  {
    driven moving(v.loop, move_and_wait(&other, &never_set));
    v.loop.turn();
    v.loop.turn();
    other.turn();
    other.turn();
    CHECK(has(report_of(v.loop), "tasks: 0\n"));
    const std::string text = report_of(other);
    CHECK_MESSAGE(has(text, "waits: move_and_wait"), text);
    never_set.set();
    other.turn();
    other.turn();
    CHECK(has(report_of(other), "tasks: 0\n"));
    v.settle();
    CHECK(moving.ended());
  }
}

TEST_CASE("the error of a deadlock in virtual time lists the coroutines that wait") {
  virtual_loop v;
  event never_set;
  try {
    v.run(middle(&never_set));
    FAIL("it ended");
  } catch (const error& e) {
    const std::string text = e.what();
    CHECK(e.condition() == errc::bad_state);
    CHECK_MESSAGE(has(text, "waits: inner" + at_line(inner_line)), text);
    CHECK(has(text, "in: middle" + at_line(middle_line)));
  }
}

TEST_CASE("a task that is given up leaves the report") {
  virtual_loop v;
  event never_set;
  CHECK_THROWS_AS(v.run(with_timeout(1s, middle(&never_set))), const error&);
  CHECK(has(report_of(v.loop), "tasks: 0\n"));
  {
    scope s(v.loop);
    s.spawn(middle(&never_set));
    v.settle();
    CHECK(has(report_of(v.loop), "tasks: 1\n"));
  }
  CHECK(has(report_of(v.loop), "tasks: 0\n"));
}

namespace {

std::string function_of(const char* pretty) {
  std::array<char, 200> room;
  dump_writer out(room, 1);
  out.function(pretty);
  out.end_line();
  out.flush();
  return {room.data(), out.size() - 1};
}

}  // namespace

TEST_CASE("the name of a function stands without its result and parameters") {
  CHECK(function_of("cordma::task<void> inner(cordma::event *)") == "inner");
  CHECK(function_of("task<> (anonymous namespace)::inner(event *)") == "inner");
  CHECK(
      function_of(
          "cordma::task<T> cordma::detail::until(cordma::time_point, cordma::task<T>) [T = int]") ==
      "cordma::detail::until");
  CHECK(function_of("void f(f(int)::_Z1fi.Frame*)") == "f");
  CHECK(function_of("static std::map<int, int> a::b<c<d>>::e(f (*)(g))") == "a::b<c<d>>::e");
  CHECK(function_of("task<> a::{anonymous}::inner(event*)") == "a::inner");
  CHECK(function_of("main") == "main");
}

TEST_CASE("numbers, times and long lines") {
  std::array<char, 8192> room;
  dump_writer out(room, 3);
  out << std::uint64_t{0} << " " << ~std::uint64_t{0} << " " << -5 << " " << 999ns << " " << 15us
      << " " << 3s << " " << 90s << " " << reinterpret_cast<const void*>(0x1f0);
  out.end_line();
  out << std::string(5000, 'x');
  out.end_line();
  out << "last";
  out.end_line();
  out << "left out";
  out.end_line();
  out.flush();
  const std::string text(room.data(), out.size());
  CHECK(text.starts_with("0 18446744073709551615 -5 999 ns 15 us 3000 ms 90 s 0x1f0\n"));
  CHECK(lines_of(text) == 3);
  CHECK(text.ends_with("x\nlast\n"));
}
