// The reactor's descriptor in foreign loops: epoll, Asio, io_uring.
#include <support/applies.hpp>
#include <support/has_io_uring.hpp>

#include <cordma/runtime/asio.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <liburing.h>
#include <poll.h>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <thread>

#include <sys/epoll.h>
#include <unistd.h>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

// A hundred naps, and as many wake-ups posted by another thread, each after the previous one was
// seen.
struct workload {
  explicit workload(reactor& r) : loop(r) {}
  reactor& loop;
  auto_event posted;
  int naps = 0;
  int posts = 0;
  std::atomic<int> wanted{0};
  static constexpr int count = 100;

  static task<void> nap(workload* w) {
    for (int i = 0; i < count; ++i) {
      co_await sleep_for(50us);
      ++w->naps;
    }
  }
  static task<void> hear(workload* w) {
    for (int i = 0; i < count; ++i) {
      w->wanted.store(i + 1);
      w->wanted.notify_one();
      co_await w->posted.wait();
      ++w->posts;
    }
  }
  static task<void> both(workload* w) {
    task_context& me = co_await this_task();
    scope s(me);
    s.spawn(nap(w));
    s.spawn(hear(w));
    co_await s.join();
  }
  // Runs on the other thread.
  void tell() {
    for (int i = 0; i < count; ++i) {
      while (wanted.load() <= i) wanted.wait(i);
      loop.post([this] { posted.set(); });
    }
  }
};

// `wait(fd)` blocks until the descriptor is readable. Returns the number of waits.
template <class Wait>
int drive_by_hand(Wait wait) {
  reactor r({.mode = wait_mode::event});
  workload w(r);
  driven<void> d(r, workload::both(&w));
  std::thread teller([&w] { w.tell(); });
  int waits = 0;
  while (!d.ended()) {
    while (r.turn()) {}
    if (d.ended()) break;
    if (r.prepare_wait() == arm_state::busy) continue;
    ++waits;
    wait(r.fd());
    r.finish_wait();
  }
  teller.join();
  CHECK(w.naps == workload::count);
  CHECK(w.posts == workload::count);
  return waits;
}

}  // namespace

TEST_CASE("a foreign epoll loop drives the reactor, and does not spin") {
  const int outer = ::epoll_create1(EPOLL_CLOEXEC);
  bool watched = false;
  const int waits = drive_by_hand([outer, &watched](int fd) {
    epoll_event e{};
    e.events = EPOLLIN;
    if (!watched) ::epoll_ctl(outer, EPOLL_CTL_ADD, fd, &e);
    watched = true;
    while (::epoll_wait(outer, &e, 1, -1) < 0) {}
  });
  ::close(outer);
  CHECK(waits <= 5 * workload::count);
}

TEST_CASE("an io_uring loop drives the reactor with one multishot poll" *
          applies(has_io_uring(), no_io_uring)) {
  io_uring ring{};
  REQUIRE(::io_uring_queue_init(8, &ring, 0) == 0);
  bool polling = false;
  const int waits = drive_by_hand([&ring, &polling](int fd) {
    // A multishot poll reports changes only. Events consumed since then are stale.
    for (;;) {
      if (!polling) {
        io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
        ::io_uring_prep_poll_multishot(sqe, fd, POLLIN);
        ::io_uring_submit(&ring);
        polling = true;
      }
      io_uring_cqe* cqe = nullptr;
      if (::io_uring_wait_cqe(&ring, &cqe) != 0) continue;
      polling = (cqe->flags & IORING_CQE_F_MORE) != 0;
      ::io_uring_cqe_seen(&ring, cqe);
      return;
    }
  });
  ::io_uring_queue_exit(&ring);
  CHECK(waits <= 5 * workload::count);
}

TEST_CASE("an io_context drives the reactor beside its own timers") {
  reactor r({.mode = wait_mode::event});
  asio::io_context io;
  workload w(r);
  driven<void> d(r, workload::both(&w));
  std::thread teller([&w] { w.tell(); });
  {
    asio_driver driver(r, io);
    int ticks = 0;
    asio::steady_timer timer(io);
    const std::function<void()> tick = [&ticks, &timer, &tick] {
      timer.expires_after(100us);
      timer.async_wait([&ticks, &tick](std::error_code ec) {
        if (ec) return;
        ++ticks;
        tick();
      });
    };
    tick();
    while (!d.ended()) io.run_one();
    CHECK(ticks > 0);
  }
  teller.join();
  CHECK(w.naps == workload::count);
  CHECK(w.posts == workload::count);
}

namespace {
task<void> count_yields(int n, int* done) {
  for (int i = 0; i < n; ++i) {
    co_await yield();
    ++*done;
  }
}
}  // namespace

TEST_CASE("an Asio timer fires while 100 000 operations complete on the driven reactor") {
  reactor r({.mode = wait_mode::polling});
  asio::io_context io;
  asio_driver driver(r, io);
  int done = 0;
  int done_at_timer = -1;
  driven<void> d(r, count_yields(100'000, &done));
  asio::steady_timer timer(io, 1ms);
  timer.async_wait([&done, &done_at_timer](std::error_code) { done_at_timer = done; });
  while (!d.ended()) io.run_one();
  CHECK(done_at_timer >= 0);
  CHECK(done_at_timer < 100'000);
}

TEST_CASE("what an Asio handler makes ready wakes the driven reactor") {
  reactor r({.mode = wait_mode::event});
  asio::io_context io;
  event e;
  driven<void> d(r, with_timeout(1h, e.wait()));
  driven<void> n(r, with_timeout(1h, sleep_for(1h)));
  asio_driver driver(r, io);
  bool answered = false;
  asio::steady_timer timer(io, 500us);
  timer.async_wait([&e, &r, &answered](std::error_code) {
    e.set();
    async(r, sleep_for(10us), [&answered](std::exception_ptr) { answered = true; });
  });
  while (!d.ended() || !answered) io.run_one();
  CHECK(d.outcome() == errc::ok);
  n.destroy();
}
