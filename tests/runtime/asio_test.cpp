#include <cordma/runtime/asio.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>
#include <cordma/runtime/when_all.hpp>

#include <array>
#include <asio.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "thread_loop.hpp"
#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

using tcp = asio::ip::tcp;

struct service {
  explicit service(wait_mode mode) : loop({.mode = mode}), host(loop) {}
  reactor loop;
  asio_host host;
  asio::io_context& io() { return host.context(); }
};

task<int> number_after(duration d, int n) {
  co_await sleep_for(d);
  co_return n;
}
task<int> failing() {
  co_await yield();
  throw std::runtime_error("failed");
}
task<void> until_set(event* e) { co_await e->wait(); }

asio::awaitable<int> inside_asio(reactor* r, event* e) {
  co_await async(*r, sleep_for(50us), asio::use_awaitable);
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, 50us);
  co_await timer.async_wait(asio::use_awaitable);
  const int n = co_await async(*r, number_after(10us, 20), asio::use_awaitable);
  try {
    co_await async(*r, failing(), asio::use_awaitable);
  } catch (const std::runtime_error&) {
    e->set();
  }
  co_await async(*r, e->wait(), asio::use_awaitable);
  co_return n + 1;
}

task<void> session(tcp::acceptor* acceptor) {
  tcp::socket s = co_await acceptor->async_accept(use_task);
  std::array<char, 64> bytes{};
  for (;;) {
    auto got =
        co_await s.async_read_some(asio::buffer(bytes), asio::experimental::as_tuple(use_task));
    auto& [ec, n] = got;
    if (ec) {
      CHECK(ec == asio::error::eof);
      co_return;
    }
    co_await asio::async_write(s, asio::buffer(bytes.data(), n), use_task);
  }
}
task<void> client(asio::io_context* io, tcp::endpoint to) {
  tcp::socket s(*io);
  co_await s.async_connect(to, use_task);
  for (int i = 0; i < 50; ++i) {
    const std::string text = "message " + std::to_string(i);
    co_await asio::async_write(s, asio::buffer(text), use_task);
    std::string back(text.size(), ' ');
    const std::size_t n = co_await asio::async_read(s, asio::buffer(back), use_task);
    CHECK(n == text.size());
    CHECK(back == text);
  }
}
task<void> echo(asio::io_context* io) {
  task_context& me = co_await this_task();
  tcp::acceptor acceptor(*io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  scope s(me);
  s.spawn(session(&acceptor));
  s.spawn(client(io, acceptor.local_endpoint()));
  co_await s.join();
}

task<void> wait_for_timer(asio::io_context* io, duration d) {
  asio::steady_timer timer(*io, d);
  co_await timer.async_wait(use_task);
}
task<void> read_nothing(asio::io_context* io, errc* ended) {
  tcp::acceptor acceptor(*io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  try {
    tcp::socket s = co_await acceptor.async_accept(use_task);
  } catch (const error& e) {
    *ended = e.condition();
    throw;
  }
}

}  // namespace

TEST_CASE("sockets and timers of Asio are awaited in tasks, in every waiting mode") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event, wait_mode::adaptive}) {
    CAPTURE(name(mode));
    service s(mode);
    run(s.loop, echo(&s.io()));
    run(s.loop, when_all(wait_for_timer(&s.io(), 200us), number_after(100us, 1)));
  }
}

TEST_CASE("an asio::awaitable awaits operations and tasks of cordma, on the same thread") {
  service s(wait_mode::event);
  event e;
  std::future<int> answer = asio::co_spawn(s.io(), inside_asio(&s.loop, &e), asio::use_future);
  const result<void> ran = s.loop.run_until(
      [](void* f) noexcept {
        return static_cast<std::future<int>*>(f)->wait_for(0s) == std::future_status::ready;
      },
      &answer);
  REQUIRE(ran.ok());
  CHECK(answer.get() == 21);
}

TEST_CASE("callbacks, futures and as_tuple take the outcome of an operation") {
  virtual_loop v;
  int value = 0;
  std::exception_ptr thrown;
  async(v.loop, number_after(1ms, 3), [&value](std::exception_ptr, int n) { value = n; });
  async(v.loop, failing(), [&thrown](std::exception_ptr e, int) { thrown = e; });
  std::future<int> later = async(v.loop, number_after(2ms, 4), asio::use_future);
  std::future<int> fails = async(v.loop, failing(), asio::use_future);
  std::tuple<std::exception_ptr, int> both;
  async(v.loop, number_after(1ms, 5),
        asio::experimental::as_tuple(
            [&both](std::tuple<std::exception_ptr, int> t) { both = std::move(t); }));
  CHECK(value == 0);  // never inside the initiating call
  v.settle();
  CHECK(value == 0);
  CHECK(thrown != nullptr);
  v.pass(2ms);
  CHECK(value == 3);
  CHECK(later.get() == 4);
  CHECK_THROWS_AS(fails.get(), std::runtime_error);
  CHECK(std::get<1>(both) == 5);
}

TEST_CASE("emitting a cancellation slot cancels the operation, as far as its contract goes") {
  virtual_loop v;
  event e;
  errc code = errc::ok;
  asio::cancellation_signal signal;
  int calls = 0;
  const auto handler = [&code, &calls](std::exception_ptr p) {
    ++calls;
    code = is_canceled(p) ? errc::canceled : errc::ok;
  };
  SUBCASE("while it waits") {
    async(v.loop, e.wait(), asio::bind_cancellation_slot(signal.slot(), handler));
    v.settle();
    CHECK(calls == 0);
    signal.emit(asio::cancellation_type::terminal);
    CHECK(calls == 0);
    v.settle();
    CHECK(calls == 1);
    CHECK(code == errc::canceled);
  }
  SUBCASE("before it began") {
    async(v.loop, e.wait(), asio::bind_cancellation_slot(signal.slot(), handler));
    signal.emit(asio::cancellation_type::all);
    v.settle();
    CHECK(code == errc::canceled);
  }
  SUBCASE("after it completed, before it was told") {
    async(v.loop, e.wait(), asio::bind_cancellation_slot(signal.slot(), handler));
    v.settle();
    e.set();
    signal.emit(asio::cancellation_type::all);
    v.settle();
    CHECK(calls == 1);
    CHECK(code == errc::ok);
  }
  signal.emit(asio::cancellation_type::all);
  v.settle();
  CHECK(calls == 1);
}

TEST_CASE("the handler runs on its own executor's thread, and is canceled from there") {
  thread_loop rdma;
  asio::io_context app;
  event e;
  asio::cancellation_signal signal;
  std::thread::id where;
  bool canceled = false;
  int n = 0;
  async(rdma.loop, number_after(10us, 6),
        asio::bind_executor(app, [&where, &n, &signal](std::exception_ptr, int value) {
          where = std::this_thread::get_id();
          n = value;
          signal.emit(asio::cancellation_type::all);
        }));
  async(rdma.loop, until_set(&e),
        asio::bind_cancellation_slot(signal.slot(),
                                     asio::bind_executor(app, [&canceled](std::exception_ptr p) {
                                       canceled = is_canceled(p);
                                     })));
  app.run();
  CHECK(where == std::this_thread::get_id());
  CHECK(n == 6);
  CHECK(canceled);
  rdma.ask([] {});  // it has left asio::dispatch, so that `app` may be destroyed
}

TEST_CASE("canceling from another thread races with completion a thousand times, safely") {
  thread_loop rdma;
  asio::io_context app;
  for (int i = 0; i < 1000; ++i) {
    auto signal = std::make_unique<asio::cancellation_signal>();
    int calls = 0;
    async(rdma.loop, sleep_for(duration(i % 50 * 100)),
          asio::bind_cancellation_slot(
              signal->slot(), asio::bind_executor(app, [&calls](std::exception_ptr) { ++calls; })));
    asio::post(app, [&signal] { signal->emit(asio::cancellation_type::all); });
    app.restart();
    app.run();
    REQUIRE(calls == 1);
  }
  rdma.ask([] {});
}

TEST_CASE("operations that are not done when the reactor goes are dropped with their handlers") {
  auto held = std::make_shared<int>(1);
  event e;
  {
    reactor r({.mode = wait_mode::polling});
    async(r, e.wait(), [held](std::exception_ptr) { CHECK(false); });
    r.turn();
    async(r, number_after(1h, 1), [held](std::exception_ptr, int) { CHECK(false); });
    CHECK(held.use_count() == 3);
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("a timeout cancels the Asio operation a task waits for") {
  service s(wait_mode::event);
  errc ended = errc::ok;
  try {
    run(s.loop, with_timeout(200us, read_nothing(&s.io(), &ended)));
    CHECK(false);
  } catch (const error& e) {
    CHECK(e.condition() == errc::timed_out);
  }
  CHECK(ended == errc::canceled);
}

TEST_CASE("a task destroyed while it waits for Asio leaves nothing behind") {
  const auto frames = frame_pool::outstanding();
  {
    service s(wait_mode::event);
    driven<void> d(s.loop, wait_for_timer(&s.io(), 1h));
    errc ignored = errc::ok;
    driven<void> a(s.loop, read_nothing(&s.io(), &ignored));
    while (s.loop.turn()) {}
    d.destroy();
    a.destroy();
  }
  CHECK(frame_pool::outstanding() == frames);
}

TEST_CASE("an io_context that goes while a task waits for it cancels the task") {
  reactor loop({.mode = wait_mode::polling});
  std::optional<asio_host> host(std::in_place, loop);
  std::optional<asio::steady_timer> timer(std::in_place, host->context(), 1h);
  struct local {
    static task<void> wait(asio::steady_timer* t) { co_await t->async_wait(use_task); }
  };
  driven<void> d(loop, local::wait(&*timer));
  while (loop.turn()) {}
  timer.reset();
  host.reset();
  while (loop.turn()) {}
  CHECK(d.outcome() == errc::canceled);
}

TEST_CASE("an Asio operation that completes on another thread resumes the task on its own") {
  asio::io_context other;
  auto work = asio::make_work_guard(other);
  std::thread runner([&other] { other.run(); });
  reactor loop({.mode = wait_mode::event});
  struct local {
    static task<void> hop(asio::io_context* io) {
      const auto mine = std::this_thread::get_id();
      co_await asio::post(*io, use_task);
      CHECK(std::this_thread::get_id() == mine);
      co_await wait_for_timer(io, 10us);
      CHECK(std::this_thread::get_id() == mine);
    }
  };
  run(loop, local::hop(&other));
  work.reset();
  runner.join();
}

TEST_CASE("an io_context in a reactor of virtual time is refused") {
  virtual_loop v;
  CHECK_THROWS_AS(asio_host{v.loop}, error);
}

namespace {
task<void> yield_often(int n) {
  for (int i = 0; i < n; ++i) co_await yield();
}
}  // namespace

TEST_CASE("in busy times the io_context is asked seldom, and its timers fire all the same") {
  service s(wait_mode::polling);
  bool fired = false;
  asio::steady_timer timer(s.io(), 100us);
  timer.async_wait([&fired](std::error_code) { fired = true; });
  const auto turns = s.loop.counters().turns;
  const auto polls = s.host.polls();
  run(s.loop, yield_often(100'000));
  CHECK(fired);
  CHECK((s.loop.counters().turns - turns) / 10 > s.host.polls() - polls);
}
