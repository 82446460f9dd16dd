// Connections of a Worker that runs in a foreign loop: epoll, Asio, io_uring. Each loop has a timer
// besides the reactor's timers.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/has_io_uring.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/asio.hpp>
#include <cordma/runtime/sleep.hpp>

#include <poll.h>
#include <array>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* virtual_time = "its time is virtual, and passes in a loop of cordma's only";

constexpr std::size_t window = 4;  // messages in flight at once
constexpr std::size_t word = 8;    // bytes of each message
constexpr auto tick = 200us;       // period of the foreign loop's timer, and of the reactor's

// Sends and receives on this side; fewer under a sanitizer, which is slow.
std::uint64_t operations_wanted() { return rounds_under_test(100'000, 4'000); }

struct traffic {
  std::uint64_t complete = 0;  // completed operations
  std::uint64_t wrong = 0;
  std::uint64_t naps = 0;  // expired timers of the reactor
  int under_way = 0;       // running tasks
};

// Sends messages and receives their echoes, `window` at a time.
task<> talk(Context* context, Worker* worker, std::string address, traffic* t) {
  Endpoint e = co_await worker->connect(std::move(address));
  MemoryRegion out = context->allocate(window * word).value();
  MemoryRegion in = context->allocate(window * word).value();
  std::vector<recv_operation> recvs;
  std::vector<send_operation> sends;
  for (std::uint64_t round = 0; t->complete < operations_wanted(); ++round) {
    recvs.clear();
    sends.clear();
    for (std::size_t i = 0; i < window; ++i) {
      out.as<std::uint64_t>()[i] = round * window + i;
      recvs.push_back(e.recv(in.all().part(i * word, word)).start());
      sends.push_back(e.send(out.all().part(i * word, word)).start());
    }
    for (send_operation& op : sends) co_await op;
    for (recv_operation& op : recvs) co_await op;
    for (std::size_t i = 0; i < window; ++i) {
      if (in.as<std::uint64_t>()[i] != round * window + i) ++t->wrong;
    }
    t->complete += 2 * window;
  }
  co_await e.close();
}

// The other side: echoes each message until the peer closes.
task<> give_back(Context* context, Listener* listener) {
  ConnectionRequest request = co_await listener->next();
  Endpoint e = co_await request.accept();
  MemoryRegion rooms = context->allocate(2 * window * word).value();
  std::vector<recv_operation> here;
  std::vector<recv_operation> next;
  for (std::size_t half = 0;; half = 1 - half) {
    // The receives are posted before the echoes that let the peer send the next messages.
    for (std::size_t i = 0; i < window; ++i) {
      next.push_back(e.recv(rooms.all().part(((1 - half) * window + i) * word, word)).start());
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      recv_operation& coming = here[i];
      const result<Received> came = co_await coming.result();
      if (!came.ok()) co_return;
      co_await e.send(rooms.all().part((half * window + i) * word, word));
    }
    here.clear();
    here.swap(next);
  }
}

task<> nap(traffic* t) {
  while (t->complete < operations_wanted()) {
    co_await sleep_for(tick);
    ++t->naps;
  }
}

void begin(reactor& loop, traffic& t, task<> work) {
  ++t.under_way;
  async(loop, std::move(work), [&t](std::exception_ptr failed) {
    CHECK_FALSE(failed);
    --t.under_way;
  });
}

// A foreign loop that runs `loop` until the traffic is over. Returns how often its timer expired.
using foreign_loop = std::uint64_t (*)(reactor& loop, const traffic& t);

// Runs passes while there is work, up to a limit, because the foreign loop has other work. True if
// the reactor is armed now, so that the loop may wait for its descriptor.
bool turn_and_arm(reactor& loop) {
  constexpr int turns_in_a_row = 64;
  for (int i = 0; i < turns_in_a_row; ++i) {
    if (loop.turn()) continue;
    if (loop.prepare_wait() == arm_state::armed) return true;
  }
  return false;
}

std::uint64_t by_epoll(reactor& loop, const traffic& t) {
  const int outer = ::epoll_create1(EPOLL_CLOEXEC);
  const int clock = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  const timespec every{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(tick).count()};
  const itimerspec schedule{.it_interval = every, .it_value = every};
  REQUIRE(::timerfd_settime(clock, 0, &schedule, nullptr) == 0);
  for (const int fd : {loop.fd(), clock}) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.fd = fd;
    REQUIRE(::epoll_ctl(outer, EPOLL_CTL_ADD, fd, &e) == 0);
  }
  std::uint64_t ticks = 0;
  while (t.under_way > 0) {
    const bool armed = turn_and_arm(loop);
    std::array<epoll_event, 2> events{};
    const int n = ::epoll_wait(outer, events.data(), 2, armed && t.under_way > 0 ? -1 : 0);
    if (armed) loop.finish_wait();
    for (int i = 0; i < n; ++i) {
      std::uint64_t expirations = 0;
      if (events[static_cast<std::size_t>(i)].data.fd != clock) continue;
      if (::read(clock, &expirations, sizeof expirations) > 0) ticks += expirations;
    }
  }
  ::close(clock);
  ::close(outer);
  return ticks;
}

std::uint64_t by_asio(reactor& loop, const traffic& t) {
  asio::io_context io;
  const asio_driver driver(loop, io);
  asio::steady_timer timer(io);
  std::uint64_t ticks = 0;
  const std::function<void()> wait = [&] {
    timer.expires_after(tick);
    timer.async_wait([&](std::error_code canceled) {
      if (canceled) return;
      ++ticks;
      wait();
    });
  };
  wait();
  while (t.under_way > 0) io.run_one();
  return ticks;
}

// A ring with one multishot poll of the reactor's descriptor, and a timeout that is set repeatedly.
class ring_loop {
 public:
  explicit ring_loop(int fd) : fd_(fd) { REQUIRE(::io_uring_queue_init(8, &ring_, 0) == 0); }
  ring_loop(const ring_loop&) = delete;
  ring_loop& operator=(const ring_loop&) = delete;
  ~ring_loop() { ::io_uring_queue_exit(&ring_); }

  std::uint64_t run(reactor& loop, const traffic& t) {
    while (t.under_way > 0) {
      submit();
      const bool armed = turn_and_arm(loop);
      // A multishot poll reports changes only, so an event seen while the reactor ran its passes
      // counts.
      if (armed && !readable_ && t.under_way > 0) {
        io_uring_cqe* cqe = nullptr;
        static_cast<void>(::io_uring_wait_cqe(&ring_, &cqe));
      }
      reap();
      if (!armed) continue;
      loop.finish_wait();
      readable_ = false;
    }
    return ticks_;
  }

 private:
  void submit() {
    if (!polling_) {
      io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
      ::io_uring_prep_poll_multishot(sqe, fd_, POLLIN);
      ::io_uring_sqe_set_data(sqe, this);
      polling_ = true;
    }
    if (!timing_) {
      io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
      ::io_uring_prep_timeout(sqe, &every_, 0, 0);
      ::io_uring_sqe_set_data(sqe, nullptr);
      timing_ = true;
    }
    // The kernel accepts no submissions while completions overflow.
    while (::io_uring_sq_ready(&ring_) != 0) {
      if (::io_uring_submit(&ring_) < 0) reap();
    }
  }
  void reap() {
    io_uring_cqe* cqe = nullptr;
    while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
      if (::io_uring_cqe_get_data(cqe) == nullptr) {
        CHECK(cqe->res == -ETIME);
        ++ticks_;
        timing_ = false;
      } else {
        readable_ = true;
        polling_ = (cqe->flags & IORING_CQE_F_MORE) != 0;
      }
      ::io_uring_cqe_seen(&ring_, cqe);
    }
  }

  io_uring ring_{};
  __kernel_timespec every_{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(tick).count()};
  int fd_;
  bool polling_ = false;
  bool timing_ = false;
  bool readable_ = false;
  std::uint64_t ticks_ = 0;
};

std::uint64_t by_io_uring(reactor& loop, const traffic& t) {
  return ring_loop(loop.fd()).run(loop, t);
}

void check(const traffic& t, std::uint64_t ticks) {
  CHECK(t.complete >= operations_wanted());
  CHECK(t.wrong == 0);
  CHECK(t.naps > 0);
  CHECK(ticks > 0);
}

// The peer sleeps in a separate thread, so both sides often wait.
void beside_a_peer_that_sleeps(foreign_loop drive, wait_mode mode = wait_mode::event) {
  std::atomic<int> port{0};
  std::thread peer([&port] {
    host p(wait_mode::event);
    Listener listener = p.worker.listen(own_host() + ":0").value();
    port.store(listener.bound().port);
    port.notify_one();
    p.worker.run(give_back(&p.context, &listener));
  });
  port.wait(0);
  traffic t;
  {
    reactor loop({.mode = mode});
    Context context(host::only());
    Worker worker(context, loop);
    begin(loop, t, talk(&context, &worker, own_host() + ":" + std::to_string(port.load()), &t));
    begin(loop, t, nap(&t));
    const std::uint64_t ticks = drive(loop, t);
    check(t, ticks);
  }
  peer.join();
}

// Both ends live on the driven reactor: it always has work, and the foreign loop still makes
// progress.
void beside_a_reactor_that_never_idles(foreign_loop drive) {
  reactor loop({.mode = wait_mode::event});
  Context context(host::only());
  Worker front(context, loop);
  Worker back(context, loop);
  Listener listener = back.listen(own_host() + ":0").value();
  traffic t;
  begin(loop, t, give_back(&context, &listener));
  begin(loop, t,
        talk(&context, &front, own_host() + ":" + std::to_string(listener.bound().port), &t));
  begin(loop, t, nap(&t));
  const std::uint64_t ticks = drive(loop, t);
  check(t, ticks);
}

applies where_io_uring_is() {
  const bool simulated = transport_under_test() == transport::kind::sim;
  return {!simulated && has_io_uring(), simulated ? virtual_time : no_io_uring};
}

}  // namespace

TEST_CASE(
    "D9: operations with a peer that sleeps, beside timers of both loops [epoll; 1e5; 2e4 under a "
    "sanitizer, 4e3 on verbs]" *
    not_on(transport::kind::sim, virtual_time)) {
  beside_a_peer_that_sleeps(by_epoll);
}

TEST_CASE(
    "D9: operations with a peer that sleeps, beside timers of both loops [Asio; 1e5; 2e4 under a "
    "sanitizer, 4e3 on verbs]" *
    not_on(transport::kind::sim, virtual_time)) {
  beside_a_peer_that_sleeps(by_asio);
}

TEST_CASE(
    "D9: operations with a peer that sleeps, beside timers of both loops [io_uring; 1e5; 2e4 under "
    "a sanitizer, 4e3 on verbs]" *
    where_io_uring_is()) {
  beside_a_peer_that_sleeps(by_io_uring);
}

TEST_CASE(
    "D9: a reactor that was made to poll is woken as well, where a foreign loop lets it sleep" *
    not_on(transport::kind::sim, virtual_time)) {
  beside_a_peer_that_sleeps(by_epoll, wait_mode::polling);
}

TEST_CASE(
    "D9: timers of both loops fire while operations keep the reactor busy [epoll; 1e5; 2e4 under a "
    "sanitizer, 4e3 on verbs]" *
    not_on(transport::kind::sim, virtual_time)) {
  beside_a_reactor_that_never_idles(by_epoll);
}

TEST_CASE(
    "D9: timers of both loops fire while operations keep the reactor busy [Asio; 1e5; 2e4 under a "
    "sanitizer, 4e3 on verbs]" *
    not_on(transport::kind::sim, virtual_time)) {
  beside_a_reactor_that_never_idles(by_asio);
}

TEST_CASE(
    "D9: timers of both loops fire while operations keep the reactor busy [io_uring; 1e5; 2e4 "
    "under a sanitizer, 4e3 on verbs]" *
    where_io_uring_is()) {
  beside_a_reactor_that_never_idles(by_io_uring);
}
