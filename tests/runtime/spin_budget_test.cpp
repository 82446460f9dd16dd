#include <cordma/runtime/spin_budget.hpp>

#include <algorithm>
#include <chrono>

#include <doctest/doctest.h>

using namespace cordma;
using namespace std::chrono_literals;

namespace {

constexpr duration cost = 10us;
constexpr duration latency = 50us;

// One of two sides that respond to each other. Each may sleep more deeply than was measured.
struct side {
  duration depth;
  spin_budget budget{cost, latency};
  duration idle_since{};
  int sleeps = 0;
  // The time at which it processes a message that arrives at `at`.
  duration take(duration at) {
    if (at - idle_since <= budget.get()) {
      budget.work_came_while_awake(at - idle_since);
      return at;
    }
    ++sleeps;
    const duration awake_at = at + depth;
    budget.work_came_while_asleep(awake_at - idle_since);
    return awake_at;
  }
};

}  // namespace

TEST_CASE("the spin budget follows the arrival gaps, and never exceeds the cost of a wake-up") {
  spin_budget b(cost, latency);
  CHECK(b.get() == cost);
  SUBCASE("rare arrivals: spinning is given up") {
    for (int i = 0; i < 10; ++i) b.work_came_while_asleep(1ms);
    CHECK(b.get() == duration::zero());
    SUBCASE("and taken up again when they come close, though the sleep itself was longer") {
      b.work_came_while_asleep(latency + 3us);
      CHECK(b.get() == cost);
    }
  }
  SUBCASE("arrivals a little later than the budget: it grows back to the cost, no further") {
    b.work_came_while_asleep(1ms);
    CHECK(b.get() == cost / 2);
    b.work_came_while_asleep(latency + cost);
    CHECK(b.get() == cost);
  }
  SUBCASE("the loss against the better of the two modes stays below a factor of two") {
    // Time lost by one wait: polling loses the gap, event mode the wake-up, adaptive mode its spin
    // and then the wake-up. The gaps are from a tenth to a hundred times the cost.
    for (const int tenths : {1, 3, 5, 9, 10, 11, 15, 20, 50, 55, 60, 61, 100, 110, 111, 1000}) {
      const duration gap = cost * tenths / 10;
      spin_budget s(cost, latency);
      duration spent{};
      constexpr int waits = 1000;
      for (int i = 0; i < waits; ++i) {
        if (gap <= s.get()) {
          spent += gap;
          s.work_came_while_awake(gap);
        } else {
          spent += s.get() + cost;
          s.work_came_while_asleep(gap + latency);
        }
      }
      CAPTURE(tenths);
      CHECK(spent <= 2 * std::min(gap, cost) * waits + 2 * cost);
    }
  }
  SUBCASE("a limit that was asked for is never passed") {
    spin_budget limited = spin_budget::at_most(cost);
    for (int i = 0; i < 10'000; ++i) {
      limited.work_came_while_asleep(2 * cost);
      CHECK(limited.get() <= cost);
    }
  }
  SUBCASE("it follows what a wake-up is found to cost") {
    for (int i = 0; i < 100; ++i) b.wake_up_took(4 * cost);
    CHECK(b.wake_cost() > cost * 39 / 10);
    CHECK(b.wake_cost() <= 4 * cost);
    b.work_came_while_asleep(latency + 3 * cost);
    CHECK(b.get() == b.wake_cost());
  }
}

TEST_CASE("two sides that answer each other, and slept, do not keep each other asleep") {
  duration depth{};
  SUBCASE("where a wake-up takes little longer than was measured") { depth = latency * 3 / 2; }
  SUBCASE("where a wake-up takes much longer than was measured") { depth = latency * 10; }
  for (const duration pause : {0us, 3us, 6us}) {
    CAPTURE(pause.count());
    side one{depth};
    side other{depth};
    for (side* s : {&one, &other}) {
      for (int i = 0; i < 10; ++i) s->budget.work_came_while_asleep(1ms);
      REQUIRE(s->budget.get() == duration::zero());
    }
    duration now = 1ms;
    for (int round = 0; round < 5000; ++round) {
      if (round == 4000) one.sleeps = other.sleeps = 0;
      for (side* s : {&other, &one}) {
        now = s->take(now) + 1us;
        s->idle_since = now;
      }
      // A timer of this side, before it sends the next request.
      one.budget.own_timer_fired(pause);
      now += pause + 1us;
      one.idle_since = now;
    }
    CHECK(one.sleeps == 0);
    CHECK(other.sleeps == 0);
  }
}
