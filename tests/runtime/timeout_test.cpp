#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <stdexcept>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

task<int> number_after(duration d, int n) {
  co_await sleep_for(d);
  co_return n;
}
task<int> number_in_spite(duration d, int n) {
  const result<void> r = co_await sleep_for(d).result();
  CHECK(r.code() == errc::canceled);
  co_return n;
}
task<void> nested(errc* inner, errc* outer) {
  try {
    co_await with_timeout(1ms, with_timeout(2ms, sleep_for(1h)));
  } catch (const error& e) {
    *outer = e.condition();
  }
  try {
    co_await with_timeout(2ms, with_timeout(1ms, sleep_for(1h)));
  } catch (const error& e) {
    *inner = e.condition();
  }
}
errc code_of(virtual_loop& v, task<void> t) {
  try {
    v.run(std::move(t));
  } catch (const error& e) {
    return e.condition();
  }
  return errc::ok;
}
errc code_of(virtual_loop& v, task<int> t, int* value) {
  try {
    *value = v.run(std::move(t));
  } catch (const error& e) {
    return e.condition();
  }
  return errc::ok;
}

}  // namespace

TEST_CASE("sleep_for takes as long as it says, in the order of the deadlines, then of the calls") {
  virtual_loop v;
  const time_point start = v.loop.now();
  CHECK(code_of(v, with_timeout(1h, sleep_for(5ms))) == errc::ok);
  CHECK(v.loop.now() - start == 5ms);
  CHECK(code_of(v, with_deadline(never, sleep_until(start))) == errc::ok);
  CHECK(v.loop.now() - start == 5ms);
  CHECK(after(time_point(1ms), duration::max()) == never);
}

TEST_CASE("with_timeout says timed_out when time passes, and gives the value when it does not") {
  virtual_loop v;
  int value = 0;
  CHECK(code_of(v, with_timeout(2ms, number_after(1ms, 3)), &value) == errc::ok);
  CHECK(value == 3);
  CHECK(code_of(v, with_timeout(1ms, number_after(2ms, 4)), &value) == errc::timed_out);
  CHECK(v.time.now() == time_point(2ms));
  CHECK(code_of(v, with_timeout(1ms, sleep_for(2ms))) == errc::timed_out);
  CHECK(code_of(v, with_timeout(0ms, sleep_for(2ms))) == errc::timed_out);
  CHECK(code_of(v, with_timeout(0ms, sleep_for(0ms))) == errc::ok);
}

TEST_CASE("an awaitable that succeeds in spite of its deadline keeps its value") {
  virtual_loop v;
  CHECK(v.run(with_timeout(1ms, number_in_spite(1h, 8))) == 8);
}

TEST_CASE("of nested timeouts the one that passed first speaks") {
  virtual_loop v;
  errc inner = errc::ok;
  errc outer = errc::ok;
  v.run(nested(&inner, &outer));
  CHECK(inner == errc::timed_out);
  CHECK(outer == errc::timed_out);
  CHECK(v.time.now() == time_point(2ms));
}

// Every order of the events that can end a wait, each in a separate pass or in the same one.
TEST_CASE("complete, cancel, time out and destroy: whichever is first decides, once") {
  enum what { complete, cancel, expire, destroy, nothing };
  const what all[] = {complete, cancel, expire, destroy};
  for (what first : all) {
    for (what second : {complete, cancel, expire, destroy, nothing}) {
      for (const bool pass_between : {false, true}) {
        CAPTURE(static_cast<int>(first));
        CAPTURE(static_cast<int>(second));
        CAPTURE(pass_between);
        virtual_loop v;
        event e;
        cancel_source above;
        driven<void> d(v.loop, with_timeout(1ms, e.wait()), &above);
        v.settle();
        REQUIRE(!d.ended());
        for (what w : {first, second}) {
          if (w == complete) e.set();
          if (w == cancel) above.request();
          if (w == expire) v.time.advance_to(v.time.now() + 1ms);
          if (w == destroy) d.destroy();
          if (pass_between) v.settle();
        }
        v.settle();
        if (first == destroy || (second == destroy && !pass_between)) {
          CHECK(!d.ended());
          continue;
        }
        REQUIRE((d.ended() || second == destroy));
        if (second == destroy) continue;
        // Elapsed time is noticed only in the next pass: an immediate step overtakes it.
        const bool overtaken = first == expire && !pass_between && second != nothing;
        const what decides = overtaken && second != expire ? second : first;
        const errc expected = decides == complete ? errc::ok
                              : decides == cancel ? errc::canceled
                                                  : errc::timed_out;
        CHECK(d.outcome() == expected);
      }
    }
  }
}
