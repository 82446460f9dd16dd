#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/when_all.hpp>
#include <cordma/runtime/when_any.hpp>

#include <memory>
#include <stdexcept>
#include <string>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

task<int> number_after(duration d, int n) {
  co_await sleep_for(d);
  co_return n;
}
task<std::unique_ptr<std::string>> text_after(duration d, std::string text) {
  co_await sleep_for(d);
  co_return std::make_unique<std::string>(text);
}
task<int> error_after(duration d, std::string what) {
  co_await sleep_for(d);
  throw std::runtime_error(what);
}
task<int> count_cancel(int* canceled) {
  const result<void> r = co_await sleep_for(1h).result();
  if (r.code() == errc::canceled) ++*canceled;
  r.value();
  co_return 0;
}
// Completes with a value although it was canceled, and not at once.
task<int> stubborn(int n) {
  const result<void> r = co_await sleep_for(1h).result();
  CHECK(r.code() == errc::canceled);
  co_await yield();
  co_return n;
}

task<void> all_values_in_order() {
  auto all = co_await when_all(number_after(3ms, 7), text_after(1ms, "x"), sleep_for(2ms));
  CHECK(std::get<0>(all) == 7);
  CHECK(*std::get<1>(all) == "x");
  static_assert(std::is_same_v<std::tuple_element_t<2, decltype(all)>, std::monostate>);
}
task<void> all_void(event* e) { co_await when_all(e->wait(), sleep_for(1ms)); }
task<int> first_error_of_three(int* canceled) {
  co_await when_all(count_cancel(canceled), error_after(2ms, "two"), error_after(1ms, "one"));
  co_return 0;
}

}  // namespace

TEST_CASE("when_all gives the values in the order of the arguments, whatever ends first") {
  virtual_loop v;
  v.run(all_values_in_order());
  CHECK(v.time.now() == time_point(3ms));
  event e;
  e.set();
  v.run(all_void(&e));
}

TEST_CASE("when_all throws the first error in time, after the others were canceled and ended") {
  virtual_loop v;
  int canceled = 0;
  CHECK_THROWS_WITH(v.run(first_error_of_three(&canceled)), "one");
  CHECK(canceled == 1);
  CHECK(v.time.now() == time_point(1ms));
}

TEST_CASE(
    "when_all over a range keeps the order, is content with none, and destroys what is left") {
  virtual_loop v;
  std::vector<task<int>> tasks;
  CHECK(v.run(when_all(std::move(tasks))).empty());
  tasks.clear();
  for (int i = 0; i < 5; ++i) tasks.push_back(number_after(duration(10 - i), i));
  CHECK(v.run(when_all(std::move(tasks))) == std::vector<int>{0, 1, 2, 3, 4});
  tasks.clear();
  for (int i = 0; i < 5; ++i) tasks.push_back(number_after(1h, i));
  driven<std::vector<int>> d(v.loop, when_all(std::move(tasks)));
  v.settle();
  d.destroy();
}

namespace {
task<void> first_of_three(int* canceled) {
  auto first = co_await when_any(count_cancel(canceled), number_after(1ms, 5), sleep_for(2ms));
  CHECK(first.index == 1);
  CHECK(std::get<1>(first.value) == 5);
}
task<void> first_is_an_error() { co_await when_any(stubborn(3), error_after(1ms, "lost")); }
task<void> loser_with_value() {
  auto first = co_await when_any(stubborn(3), number_after(1ms, 4));
  CHECK(first.index == 1);
  CHECK(std::get<1>(first.value) == 4);
}
task<void> tie() {
  auto first = co_await when_any(number_after(1ms, 1), number_after(1ms, 2));
  CHECK(first.index == 0);
}
}  // namespace

TEST_CASE("when_any gives the first and awaits the canceled rest") {
  virtual_loop v;
  int canceled = 0;
  v.run(first_of_three(&canceled));
  CHECK(canceled == 1);
  CHECK(v.time.now() == time_point(1ms));
  CHECK_THROWS_WITH(v.run(first_is_an_error()), "lost");
  v.run(loser_with_value());
  v.run(tie());
}

TEST_CASE("when_any over a range tells which") {
  virtual_loop v;
  std::vector<task<int>> tasks;
  for (int i = 0; i < 5; ++i) tasks.push_back(number_after(duration(10 - i), i * i));
  const auto first = v.run(when_any(std::move(tasks)));
  CHECK(first.index == 4);
  CHECK(first.value == 16);
}

TEST_CASE("canceling when_all and when_any cancels all of them") {
  virtual_loop v;
  int canceled = 0;
  cancel_source above;
  driven<int> all(v.loop, first_error_of_three(&canceled), &above);
  driven<void> any(v.loop, first_of_three(&canceled), &above);
  v.settle();
  above.request();
  v.settle();
  CHECK(all.outcome() == errc::canceled);
  CHECK(any.outcome() == errc::canceled);
  CHECK(canceled == 2);
}
