#include <cordma/runtime/channel.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/sleep.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

task<void> hold(mutex* m, duration d, int number, std::vector<int>* log) {
  const mutex::guard g = co_await m->lock();
  log->push_back(number);
  co_await sleep_for(d);
  log->push_back(-number);
}
task<void> acquire(semaphore* s, std::size_t n, int number, std::vector<int>* log) {
  co_await s->acquire(n);
  log->push_back(number);
}
task<void> send_all(channel<std::unique_ptr<int>>* c, int first, int count, int* sent) {
  for (int i = first; i < first + count; ++i) {
    co_await c->send(std::make_unique<int>(i));
    ++*sent;
  }
}
task<void> receive_all(channel<std::unique_ptr<int>>* c, std::vector<int>* log) {
  for (;;) {
    const result<std::unique_ptr<int>> value = co_await c->recv().result();
    if (!value) {
      CHECK(value.code() == errc::shutdown);
      co_return;
    }
    log->push_back(**value);
  }
}

}  // namespace

TEST_CASE("a mutex lets one in at a time, in the order of asking") {
  virtual_loop v;
  mutex m;
  std::vector<int> log;
  driven<void> a(v.loop, hold(&m, 2ms, 1, &log));
  driven<void> b(v.loop, hold(&m, 1ms, 2, &log));
  driven<void> c(v.loop, hold(&m, 1ms, 3, &log));
  v.settle();
  CHECK(!m.try_lock());
  v.pass(2ms);
  v.pass(1ms);
  CHECK(log == std::vector<int>{1, -1, 2, -2, 3});
  v.pass(1ms);
  CHECK(!m.locked());
  CHECK(static_cast<bool>(m.try_lock()));
}

TEST_CASE("what would have to wait ends with again, where it is asked to, and stands in no queue") {
  virtual_loop v;
  mutex m;
  event e;
  std::vector<int> log;
  driven<void> holder(v.loop, hold(&m, 2ms, 1, &log));
  v.settle();
  v.run([](mutex* busy, event* unset) -> task<> {
    const result<mutex::guard> taken = co_await busy->lock().or_again().result();
    CHECK(taken.code() == errc::again);
    errc thrown = errc::ok;
    try {
      co_await unset->wait().or_again();
    } catch (const error& why) {
      thrown = why.condition();
    }
    CHECK(thrown == errc::again);
    unset->set();
    co_await unset->wait().or_again();
    unset->reset();
    event::wait_operation moved = unset->wait().or_again();
    event::wait_operation last = std::move(moved);
    last.start();
    CHECK(last.done());
    CHECK(last.take_result().code() == errc::again);
  }(&m, &e));
  v.pass(2ms);
  CHECK(!m.locked());
  CHECK(static_cast<bool>(m.try_lock()));
}

TEST_CASE("a semaphore serves in order: a small request does not overtake a large one") {
  virtual_loop v;
  semaphore s(2);
  std::vector<int> log;
  driven<void> a(v.loop, acquire(&s, 1, 1, &log));
  driven<void> b(v.loop, acquire(&s, 3, 2, &log));
  driven<void> c(v.loop, acquire(&s, 1, 3, &log));
  v.settle();
  CHECK(log == std::vector<int>{1});
  CHECK(!s.try_acquire());
  s.release(2);
  v.settle();
  CHECK(log == std::vector<int>{1, 2});
  SUBCASE("the next is served when some come back") { s.release(); }
  v.settle();
  CHECK(log.size() == (s.available() == 0 && c.ended() ? 3 : 2));
}

TEST_CASE("a large request that goes away lets the small one behind it pass") {
  for (const bool by_destruction : {false, true}) {
    CAPTURE(by_destruction);
    virtual_loop v;
    semaphore s(1);
    std::vector<int> log;
    cancel_source stop;
    driven<void> large(v.loop, acquire(&s, 2, 1, &log), &stop);
    driven<void> small(v.loop, acquire(&s, 1, 2, &log));
    v.settle();
    CHECK(log.empty());
    if (by_destruction) {
      large.destroy();
    } else {
      stop.request();
    }
    v.settle();
    CHECK(log == std::vector<int>{2});
    CHECK(s.available() == 0);
  }
}

TEST_CASE("a channel keeps order and never holds more than its capacity [0, 1, 3]") {
  for (std::size_t capacity : {0U, 1U, 3U}) {
    CAPTURE(capacity);
    virtual_loop v;
    channel<std::unique_ptr<int>> c(capacity);
    int sent = 0;
    driven<void> sender(v.loop, send_all(&c, 0, 10, &sent));
    v.settle();
    CHECK(sent == static_cast<int>(capacity));
    CHECK(c.size() == capacity);
    std::vector<int> log;
    driven<void> receiver(v.loop, receive_all(&c, &log));
    v.settle();
    CHECK(sent == 10);
    CHECK(log == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(!receiver.ended());
    c.close();
    v.settle();
    CHECK(receiver.outcome() == errc::ok);
    CHECK(sender.outcome() == errc::ok);
  }
}

TEST_CASE("closing a channel ends senders at once and receivers when it is empty") {
  virtual_loop v;
  channel<std::unique_ptr<int>> c(2);
  int sent = 0;
  driven<void> sender(v.loop, send_all(&c, 0, 5, &sent));
  v.settle();
  c.close();
  c.close();
  v.settle();
  CHECK(sender.outcome() == errc::shutdown);
  std::vector<int> log;
  driven<void> receiver(v.loop, receive_all(&c, &log));
  v.settle();
  CHECK(log == std::vector<int>{0, 1});
  CHECK(receiver.ended());
  auto value = std::make_unique<int>(1);
  CHECK(!c.try_send(value));
  CHECK(value);
}

TEST_CASE("waiters of a channel that is destroyed get shutdown") {
  virtual_loop v;
  std::optional<channel<std::unique_ptr<int>>> c(std::in_place, 1U);
  std::vector<int> log;
  driven<void> receiver(v.loop, receive_all(&*c, &log));
  v.settle();
  c.reset();
  v.settle();
  CHECK(receiver.ended());
}

namespace {

// One object of each kind, with one pass to release, so that a single table of interleavings fits
// all.
struct turnstile {
  virtual ~turnstile() = default;
  virtual task<void> enter() = 0;  // waits for the pass
  virtual void give() = 0;         // lets one waiter enter
  [[nodiscard]] virtual bool pass_left() = 0;
};
struct semaphore_turnstile final : turnstile {
  semaphore s{0};
  task<void> enter() override { co_await s.acquire(); }
  void give() override { s.release(); }
  bool pass_left() override { return s.available() == 1; }
};
struct event_turnstile final : turnstile {
  auto_event e;
  task<void> enter() override { co_await e.wait(); }
  void give() override { e.set(); }
  bool pass_left() override { return e.is_set(); }
};
struct mutex_turnstile final : turnstile {
  mutex m;
  mutex::guard held = m.try_lock();
  task<void> enter() override {
    mutex::guard g = co_await m.lock();
    held = std::move(g);  // the coroutine that enters keeps it
  }
  void give() override { held.unlock(); }
  bool pass_left() override { return !m.locked(); }
  ~mutex_turnstile() override { held.unlock(); }
};
struct channel_turnstile final : turnstile {
  channel<int> c{1};
  task<void> enter() override { co_await c.recv(); }
  void give() override {
    int one = 1;
    CHECK(c.try_send(one));
  }
  bool pass_left() override { return c.size() == 1; }
};

std::unique_ptr<turnstile> make(int kind) {
  switch (kind) {
    case 0: return std::make_unique<semaphore_turnstile>();
    case 1: return std::make_unique<event_turnstile>();
    case 2: return std::make_unique<mutex_turnstile>();
    default: return std::make_unique<channel_turnstile>();
  }
}
constexpr int kinds = 4;
constexpr int channel_kind = 3;

enum step { give, cancel_first, destroy_first };

}  // namespace

// Two coroutines wait; the pass is released, and the first one is canceled and destroyed, in all
// orders, with passes of the loop between the steps or not. The pass is used once, or is left, and
// no coroutine resumes twice.
TEST_CASE("a pass is never lost or doubled, however giving, canceling and destroying interleave") {
  const std::vector<std::vector<step>> orders = {
      {give},
      {give, cancel_first},
      {cancel_first, give},
      {give, destroy_first},
      {destroy_first, give},
      {give, cancel_first, destroy_first},
      {cancel_first, give, destroy_first},
      {cancel_first, destroy_first, give},
      {destroy_first, give, cancel_first},
  };
  for (int kind = 0; kind < kinds; ++kind) {
    for (std::size_t order = 0; order < orders.size(); ++order) {
      for (unsigned passes = 0; passes < (1U << orders[order].size()); ++passes) {
        CAPTURE(kind);
        CAPTURE(order);
        CAPTURE(passes);
        virtual_loop v;
        const std::unique_ptr<turnstile> t = make(kind);
        cancel_source stop;
        driven<void> first(v.loop, t->enter(), &stop);
        driven<void> second(v.loop, t->enter());
        v.settle();
        REQUIRE((!first.ended() && !second.ended()));
        bool canceled_early = false;
        bool given = false;
        bool destroyed_waiting = false;  // after it obtained the pass, before it ran
        bool destroyed = false;
        for (std::size_t i = 0; i < orders[order].size(); ++i) {
          switch (orders[order][i]) {
            case give:
              t->give();
              given = true;
              break;
            case cancel_first:
              canceled_early = canceled_early || (!given && !destroyed);
              stop.request();
              break;
            case destroy_first:
              destroyed_waiting = given && !first.ended() && !canceled_early;
              destroyed = true;
              first.destroy();
              break;
          }
          if ((passes >> i & 1U) != 0) v.settle();
        }
        v.settle();
        // The first one used it, unless it was destroyed before; then the second one did.
        const bool lost_by_contract = kind == channel_kind && destroyed_waiting;
        const bool first_used = !canceled_early && first.ended();
        if (!destroyed && canceled_early) CHECK(first.outcome() == errc::canceled);
        if (!destroyed && !canceled_early) CHECK(first.outcome() == errc::ok);
        CHECK(second.ended() == (!first_used && !lost_by_contract));
        CHECK(!t->pass_left());
      }
    }
  }
}
