#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>
#include <support/stage.hpp>

#include <pthread.h>
#include <sched.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

// A completion queue as the reactor sees one: a count that another thread increases, and a
// descriptor that becomes readable once, for the first completion after arming.
class fake_queue final : public poller {
 public:
  fake_queue() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~fake_queue() override { ::close(fd_); }

  // May be called on any thread.
  void complete() {
    completions_.fetch_add(1);
    if (armed_.exchange(false)) {
      const std::uint64_t one = 1;
      CHECK(::write(fd_, &one, sizeof one) == sizeof one);
    }
  }
  [[nodiscard]] std::uint64_t reaped() const { return reaped_; }

  event* on_completion = nullptr;

 private:
  std::size_t poll() noexcept override {
    const std::uint64_t n = completions_.load();
    if (n == reaped_) return 0;
    const std::uint64_t found = n - reaped_;
    reaped_ = n;
    if (on_completion != nullptr) on_completion->set();
    return found;
  }
  arm_state arm() noexcept override {
    armed_.store(true);
    return arm_state::armed;
  }
  void disarm() noexcept override {
    armed_.store(false);
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto n = ::read(fd_, &ignored, sizeof ignored);
  }
  [[nodiscard]] int wait_fd() const noexcept override { return fd_; }
  [[nodiscard]] const char* name() const noexcept override { return "fake"; }

  int fd_;
  std::atomic<std::uint64_t> completions_{0};
  std::atomic<bool> armed_{false};
  std::uint64_t reaped_ = 0;
};

task<void> consume(event* e, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    co_await e->wait();
    e->reset();
  }
}

// Keeps the calling thread on the n-th processor available to it, if it exists, during the object's
// lifetime: two threads on the same processor never meet in a window of a few hundred nanoseconds.
class on_processor {
 public:
  explicit on_processor(std::size_t n) {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && n-- == 0) CPU_SET(cpu, &one);
    }
    if (CPU_COUNT(&one) == 1) ::sched_setaffinity(0, sizeof one, &one);
  }
  ~on_processor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  on_processor(const on_processor&) = delete;
  on_processor& operator=(const on_processor&) = delete;

 private:
  cpu_set_t before_;
};

// A step takes some tens of nanoseconds.
void linger(int steps) {
  for (int left = steps * 16; left > 0; --left) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Releases the other thread from inside the first or the second window before a sleep, alternately.
struct window {
  std::atomic<int> permits{0};
  int calls = 0;
  static void entered(void* p) noexcept {
    auto& self = *static_cast<window*>(p);
    const int round = self.calls++ / 2;
    if (self.calls % 2 != round % 2) return;
    self.permits.store(self.permits.load() + 1);
    linger(round % 61);
  }
};

}  // namespace

// The other thread completes exactly one request per sleep, released in the window between the last
// drain and the sleep. Both sides linger for varying times, so that every part of the window is
// hit. A lost completion hangs the test, and ctest's limit ends it.
TEST_CASE("no completion is lost between the last drain and the sleep, 100 000 times") {
  const int rounds = static_cast<int>(cordma::test::rounds_under_test(100'000));
  fake_queue queue;
  event e;
  queue.on_completion = &e;
  window w;
  reactor_options options;
  options.mode = wait_mode::event;
  options.before_sleep = &window::entered;
  options.before_sleep_context = &w;
  reactor r(options);
  REQUIRE(r.add(queue).ok());
  std::atomic<bool> over{false};
  std::thread peer([&queue, &w, &over] {
    const on_processor second(1);
    for (int i = 0; !over.load(); ++i) {
      for (int spins = 0; w.permits.load() <= i && !over.load(); ++spins) {
        if (spins > 10'000) std::this_thread::yield();
      }
      linger(i % 97);
      queue.complete();
    }
  });
  const on_processor first(0);  // after the thread was created, which would inherit it
  run(r, consume(&e, rounds));
  over.store(true);
  peer.join();
  CHECK(queue.reaped() >= rounds);
  const reactor_counters& n = r.counters();
  MESSAGE("arms " << n.arms << ", sleeps " << n.sleeps << ", found in the window " << n.late_work);
  CHECK(n.arms > 0);
  r.remove(queue);
}

// The same, exactly in the window: the hook itself completes the request.
TEST_CASE("what completes inside the window is found, 100 000 times, and never slept on") {
  constexpr int rounds = 100'000;
  fake_queue queue;
  event e;
  queue.on_completion = &e;
  for (const int which : {0, 1}) {
    CAPTURE(which);
    struct hook {
      fake_queue* queue;
      int which;
      int calls = 0;
    } h{&queue, which};
    reactor_options options;
    options.mode = wait_mode::event;
    options.before_sleep = [](void* p) noexcept {
      auto& self = *static_cast<hook*>(p);
      if (self.calls++ % 2 == self.which) self.queue->complete();
    };
    options.before_sleep_context = &h;
    reactor r(options);
    REQUIRE(r.add(queue).ok());
    run(r, consume(&e, rounds));
    CHECK(r.counters().sleeps == 0);
    pollfd nobody_wrote{r.fd(), POLLIN, 0};
    CHECK(::poll(&nobody_wrote, 1, 0) == 0);
    r.remove(queue);
  }
}

namespace {
// Wakes a reactor that sleeps or is about to: the hook requests it.
struct wake_race {
  static constexpr int rounds = 1000;
  static inline wake_race* signaled = nullptr;
  reactor* target = nullptr;
  std::atomic<bool> due{false};
  std::atomic<int> asked{0};
  std::atomic<bool> woken{false};
  std::atomic<time_point> woken_at{time_point{}};

  static void before_sleep(void* p) noexcept {
    auto& self = *static_cast<wake_race*>(p);
    if (!self.due.exchange(false)) return;
    self.asked.fetch_add(1);
    self.asked.notify_one();
  }
  // Also runs in a signal handler.
  void wake() noexcept {
    woken_at.store(target->now());
    woken.store(true);
    target->wake();
  }
};
}  // namespace

TEST_CASE("D8: wake() from another thread and from a signal handler ends a wait, 1000 times each") {
  for (const bool by_signal : {false, true}) {
    CAPTURE(by_signal);
    wake_race race;
    reactor r({.mode = wait_mode::event,
               .before_sleep = &wake_race::before_sleep,
               .before_sleep_context = &race});
    race.target = &r;
    wake_race::signaled = &race;
    std::signal(SIGUSR1, [](int) { wake_race::signaled->wake(); });
    const pthread_t sleeper = ::pthread_self();
    std::thread waker([&race, by_signal, sleeper] {
      for (int i = 1; i <= wake_race::rounds; ++i) {
        for (int now = race.asked.load(); now < i; now = race.asked.load()) race.asked.wait(now);
        if (by_signal) {
          ::pthread_kill(sleeper, SIGUSR1);
        } else {
          race.wake();
        }
      }
    });
    std::vector<duration> latencies;
    for (int i = 1; i <= wake_race::rounds; ++i) {
      race.due.store(true);
      const auto woken = [](void* p) noexcept {
        return static_cast<wake_race*>(p)->woken.exchange(false);
      };
      CHECK(r.run_until(woken, &race).ok());
      latencies.push_back(r.now() - race.woken_at.load());
    }
    waker.join();
    std::signal(SIGUSR1, SIG_DFL);
    wake_race::signaled = nullptr;
    std::sort(latencies.begin(), latencies.end());
    const std::string from = by_signal ? "a signal handler" : "another thread";
    MESSAGE("woken from " << from << ": median " << latencies[latencies.size() / 2].count()
                          << " ns, longest " << latencies.back().count() << " ns");
  }
}

TEST_CASE("D8: a wake() before the wait is not lost, and does not make later waits spin") {
  reactor r({.mode = wait_mode::event});
  r.wake();
  CHECK(r.prepare_wait() == arm_state::busy);
  // The descriptor may still be readable once; after that it is quiet.
  for (int i = 0; i < 3; ++i) {
    r.turn();
    REQUIRE(r.prepare_wait() == arm_state::armed);
    r.finish_wait();
  }
  event e;
  driven<void> d(r, with_timeout(200us, e.wait()));
  CHECK(r.run_until([](void* p) noexcept { return static_cast<driven<void>*>(p)->ended(); }, &d)
            .ok());
  CHECK(r.counters().sleeps <= 3);
}

TEST_CASE("polling finds nothing without a system call, and counts it as idle") {
  reactor r({.mode = wait_mode::polling});
  const auto before = r.counters();
  for (int i = 0; i < 100; ++i) CHECK(!r.turn());
  CHECK(r.counters().idle_turns == before.idle_turns + 100);
  CHECK(r.counters().sleeps == 0);
}

TEST_CASE("a poller that cannot wake a sleeper is refused where the reactor may sleep") {
  class blind final : public poller {
    std::size_t poll() noexcept override { return 0; }
    arm_state arm() noexcept override { return arm_state::armed; }
    [[nodiscard]] int wait_fd() const noexcept override { return cannot_wake; }
    [[nodiscard]] const char* name() const noexcept override { return "blind"; }
  } b;
  reactor sleepy({.mode = wait_mode::event});
  const result<void> refused = sleepy.add(b);
  CHECK(refused.code() == errc::not_supported);
  CHECK(refused.why().message().find("blind") != std::string::npos);
  reactor awake({.mode = wait_mode::polling});
  CHECK(awake.add(b).ok());
  awake.remove(b);
}

TEST_CASE("virtual time jumps from timer to timer, and a deadlock is an error") {
  virtual_loop v;
  event e;
  v.run(with_timeout(24h, sleep_for(23h)));
  CHECK(v.time.now() == time_point(23h));
  struct local {
    static task<void> wait(event* e) { co_await e->wait(); }
  };
  try {
    v.run(local::wait(&e));
    CHECK(false);
  } catch (const error& err) {
    CHECK(err.condition() == errc::bad_state);
  }
}

TEST_CASE("timers of one instant fire in the order of adding, removed ones never") {
  struct noting final : timer {
    noting(int n, std::vector<int>* log)
        : timer([](timer& t) noexcept {
            auto& self = static_cast<noting&>(t);
            self.log_->push_back(self.n_);
          }),
          n_(n),
          log_(log) {}
    int n_;
    std::vector<int>* log_;
  };
  virtual_loop v;
  std::vector<int> log;
  {
    std::vector<std::unique_ptr<noting>> timers;
    for (int i = 0; i < 100; ++i) {
      timers.push_back(std::make_unique<noting>(i, &log));
      v.loop.add(*timers.back(), time_point(duration(i % 7)));
    }
    for (std::size_t i = 0; i < 100; i += 3) timers[i].reset();
    for (int t = 0; t < 7; ++t) v.pass(duration(1));
  }
  std::vector<int> expected;
  for (int t = 0; t < 7; ++t) {
    for (int i = 0; i < 100; ++i) {
      if (i % 7 == t && i % 3 != 0) expected.push_back(i);
    }
  }
  CHECK(log == expected);
}

namespace {

// Records its expiry, and may be set again.
struct noted final : timer {
  noted() : timer([](timer& t) noexcept { static_cast<noted&>(t).fired->push_back(&t); }) {}
  std::vector<const timer*>* fired = nullptr;
};

}  // namespace

TEST_CASE("any number of timers fires in order, whatever is set again or removed meanwhile") {
  constexpr std::size_t count = 3000;
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    std::minstd_rand chance(seed);
    virtual_loop v;
    std::vector<const timer*> fired;
    fired.reserve(count);
    std::vector<noted> alarms(count);
    std::map<std::pair<time_point, int>, const timer*> expected;
    std::vector<std::pair<time_point, int>> place(count, {time_point{}, -1});
    int order = 0;
    for (std::size_t step = 0; step < 4 * count; ++step) {
      const std::size_t i = step < count ? step : chance() % count;
      alarms[i].fired = &fired;
      expected.erase(place[i]);
      if (step >= count && chance() % 4 == 0) {
        v.loop.remove(alarms[i]);
      } else {
        place[i] = {time_point(duration(chance() % 500)), order++};
        expected[place[i]] = &alarms[i];
        v.loop.add(alarms[i], place[i].first);
      }
      CHECK(alarms[i].pending() == expected.contains(place[i]));
    }
    std::vector<const timer*> in_order;
    for (const auto& [when, t] : expected) in_order.push_back(t);
    v.pass(duration(500));
    CHECK(fired == in_order);
  }
}

namespace {
task<int> ready_at_once(int i) { co_return i; }
[[gnu::noinline]] std::uintptr_t here() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}
task<void> a_million(event* set, std::uintptr_t* lowest) {
  *lowest = here();
  for (int i = 0; i < 1'000'000; ++i) {
    co_await set->wait();
    const int n = co_await ready_at_once(i);
    if (n != i) co_return;
    *lowest = std::min(*lowest, here());
  }
}
}  // namespace

TEST_CASE("a million awaits that complete at once do not grow the stack") {
  virtual_loop v;
  event e;
  e.set();
  std::uintptr_t lowest = 0;
  const std::uintptr_t top = here();
  v.run(a_million(&e, &lowest));
  // At most the limit of inline resumptions in one pass, in builds in which the transfer is no tail
  // call.
  CHECK(top - lowest < 512 * 1024);
}

TEST_CASE("a busy chain of awaits does not starve the pollers") {
  fake_queue queue;
  reactor r({.mode = wait_mode::polling});
  REQUIRE(r.add(queue).ok());
  event e;
  e.set();
  std::uintptr_t ignored = 0;
  const auto before = r.counters().turns;
  run(r, a_million(&e, &ignored));
  CHECK(r.counters().turns - before > 1'000'000 / 256);
  r.remove(queue);
}
