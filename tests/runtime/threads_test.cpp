#include <cordma/runtime/event.hpp>
#include <cordma/runtime/resume_on.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/stop.hpp>
#include <cordma/runtime/timeout.hpp>
#include <cordma/runtime/when_all.hpp>

#include <dirent.h>
#include <atomic>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "thread_loop.hpp"
#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

int threads_of_this_process() {
  int n = 0;
  DIR* d = ::opendir("/proc/self/task");
  while (const dirent* e = ::readdir(d)) n += e->d_name[0] != '.' ? 1 : 0;
  ::closedir(d);
  return n;
}

task<std::thread::id> where_am_i() { co_return std::this_thread::get_id(); }
task<int> fail_over_there() {
  co_await sleep_for(1us);
  throw std::runtime_error("over there");
}
task<void> wait_for_ever(event* e) { co_await e->wait(); }

task<void> there_and_back(reactor* here, reactor* other, std::vector<std::thread::id>* where) {
  where->push_back(std::this_thread::get_id());
  co_await resume_on(*other);
  where->push_back(std::this_thread::get_id());
  co_await resume_on(*other);
  co_await sleep_for(10us);
  where->push_back(std::this_thread::get_id());
  co_await resume_on(*here);
  where->push_back(std::this_thread::get_id());
}
task<void> end_elsewhere(reactor* other) { co_await resume_on(*other); }
task<void> scope_with_travelers(reactor* other, int n) {
  task_context& me = co_await this_task();
  scope s(me);
  for (int i = 0; i < n; ++i) s.spawn(end_elsewhere(other));
  co_await s.join();
  co_await when_all(end_elsewhere(other), end_elsewhere(other));
  co_await with_timeout(1h, end_elsewhere(other));
  CHECK(me.home().on_owner_thread());
  co_await end_elsewhere(other);
  CHECK(other->on_owner_thread());
}

// Runs `misuse` in a child process; true if it was stopped by an abort with a message.
bool aborts(const std::function<void()>& misuse) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    misuse();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("resume_on moves a task to another thread and back") {
  reactor here({.mode = wait_mode::event});
  thread_loop other;
  std::vector<std::thread::id> where;
  run(here, there_and_back(&here, &other.loop, &where));
  const auto mine = std::this_thread::get_id();
  CHECK(where == std::vector<std::thread::id>{mine, other.id(), other.id(), mine});
}

TEST_CASE("tasks that end elsewhere are joined at home") {
  reactor here({.mode = wait_mode::event});
  thread_loop other;
  run(here, scope_with_travelers(&other.loop, 100));
}

TEST_CASE("run_on brings back the value and the error") {
  reactor here({.mode = wait_mode::event});
  thread_loop other;
  CHECK(run(here, run_on(other.loop, where_am_i())) == other.id());
  CHECK(run(here, run_on(here, where_am_i())) == std::this_thread::get_id());
  CHECK_THROWS_WITH(run(here, run_on(other.loop, fail_over_there())), "over there");
}

TEST_CASE("cancellation reaches a task that runs on another thread") {
  reactor here({.mode = wait_mode::event});
  thread_loop other;
  event never_set;
  try {
    run(here, with_timeout(100us, run_on(other.loop, wait_for_ever(&never_set))));
    CHECK(false);
  } catch (const error& e) {
    CHECK(e.condition() == errc::timed_out);
  }
}

TEST_CASE("a stop_token requested from another thread cancels, before, during and after") {
  reactor here({.mode = wait_mode::event});
  for (int round = 0; round < 200; ++round) {
    event e;
    std::stop_source source;
    std::thread asker([&source] { source.request_stop(); });
    try {
      run(here, with_stop(source.get_token(), wait_for_ever(&e)));
      CHECK(false);
    } catch (const error& e2) {
      CHECK(e2.condition() == errc::canceled);
    }
    asker.join();
  }
  std::stop_source source;
  run(here, with_stop(source.get_token(), with_timeout(1h, sleep_for(0ms))));
  source.request_stop();
}

TEST_CASE("a with_stop that is destroyed with its message under way leaves nothing behind") {
  virtual_loop v;
  event e;
  for (const bool arrives : {false, true}) {
    std::stop_source source;
    driven<void> d(v.loop, with_stop(source.get_token(), wait_for_ever(&e)));
    v.settle();
    source.request_stop();
    if (arrives) v.settle();
    d.destroy();
    v.settle();
  }
}

TEST_CASE("work that is still in the inbox is dropped with the reactor, not leaked and not run") {
  auto counted = std::make_shared<int>(0);
  {
    reactor r({.mode = wait_mode::event});
    r.post([counted] { ++*counted; });
    CHECK(counted.use_count() == 2);
  }
  CHECK(counted.use_count() == 1);
  CHECK(*counted == 0);
}

TEST_CASE("the library starts no thread") {
  const int before = threads_of_this_process();
  reactor r({.mode = wait_mode::adaptive});
  run(r, with_timeout(1h, sleep_for(100us)));
  CHECK(threads_of_this_process() == before);
}

TEST_CASE("nothing makes progress while nobody runs the reactor") {
  virtual_loop v;
  event e;
  driven<void> d(v.loop, wait_for_ever(&e));
  e.set();
  CHECK(!d.ended());
  v.settle();
  CHECK(d.ended());
}

TEST_CASE("a reactor that runs on another thread refuses to be run here") {
  thread_loop other;
  try {
    run(other.loop, with_timeout(1h, sleep_for(0ms)));
    CHECK(false);
  } catch (const error& e) {
    CHECK(e.condition() == errc::no_lock);
  }
}

namespace {
task<errc> run_inside(reactor* r) {
  errc refused = errc::ok;
  try {
    run(*r, with_timeout(1h, sleep_for(0ms)));
  } catch (const error& e) {
    refused = e.condition();
  }
  co_return refused;
}
task<void> turn_inside(reactor* r) {
  r->turn();
  co_return;
}
}  // namespace

TEST_CASE("running a reactor from inside one of its coroutines is refused") {
  virtual_loop v;
  CHECK(v.run(run_inside(&v.loop)) == errc::bad_state);
}

TEST_CASE("misuse of a reactor is caught in every build") {
  SUBCASE("a turn on a foreign thread") {
    CHECK(aborts([] {
      thread_loop other;
      other.loop.turn();
    }));
  }
  SUBCASE("making something ready from a foreign thread") {
    CHECK(aborts([] {
      thread_loop other;
      resume_item item;
      other.loop.ready(item);
    }));
  }
  SUBCASE("a turn inside a turn") {
    CHECK(aborts([] {
      reactor r({.mode = wait_mode::polling});
      run(r, turn_inside(&r));
    }));
  }
  SUBCASE("awaiting a task twice") {
    struct local {
      static task<void> twice() {
        task<std::thread::id> t = where_am_i();
        co_await t;
        co_await t;
      }
    };
    CHECK(aborts([] {
      reactor r({.mode = wait_mode::polling});
      run(r, local::twice());
    }));
  }
}

TEST_CASE("100 000 items posted from four threads all run, in the order of each thread") {
  constexpr int threads = 4;
  constexpr int each = 25'000;
  thread_loop other(wait_mode::adaptive);
  std::vector<int> last(threads, -1);
  std::atomic<int> out_of_order{0};
  std::vector<std::thread> posters;
  for (int t = 0; t < threads; ++t) {
    posters.emplace_back([t, &other, &last, &out_of_order] {
      for (int i = 0; i < each; ++i) {
        other.loop.post([t, i, &last, &out_of_order] {
          if (std::exchange(last[static_cast<std::size_t>(t)], i) != i - 1) ++out_of_order;
        });
      }
    });
  }
  for (std::thread& p : posters) p.join();
  other.ask([] {});
  CHECK(last == std::vector<int>(threads, each - 1));
  CHECK(out_of_order == 0);
}
