// BufferPool: fixed size, fast, and every buffer is returned once.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

using namespace cordma;
using namespace cordma::test;

namespace {
Context only_tcp() {
  context_options o;
  o.transports = {transport::kind::tcp};
  return Context(o);
}
}  // namespace

TEST_CASE("C10: n buffers, then no_memory, then as many as come back; apart and aligned") {
  Context context = only_tcp();
  BufferPool pool(context, 100, 5);
  std::vector<Buffer> taken;
  std::set<const std::byte*> places;
  for (int i = 0; i < 5; ++i) {
    taken.push_back(pool.take().value());
    CHECK(taken.back().size() == 100);
    CHECK(reinterpret_cast<std::uintptr_t>(taken.back().data()) % 64 == 0);
    places.insert(taken.back().data());
  }
  CHECK(places.size() == 5);
  CHECK(pool.available() == 0);
  CHECK(pool.take().code() == errc::no_memory);
  taken.pop_back();
  CHECK(pool.available() == 1);
  Buffer again = pool.take().value();
  CHECK(places.contains(again.data()));
  again.reset();
  again.reset();
  CHECK(pool.available() == 1);
}

TEST_CASE("C10: a buffer cannot go back twice: it has one owner, and who gave it away has none") {
  static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
  Context context = only_tcp();
  BufferPool pool(context, 64, 2);
  Buffer first = pool.take().value();
  Buffer second = pool.take().value();
  Buffer owner = std::move(first);
  first.reset();  // NOLINT(bugprone-use-after-move)
  first.reset();
  CHECK(pool.available() == 0);
  owner = std::move(second);  // the buffer that it held is returned
  CHECK(pool.available() == 1);
  owner.reset();
  owner.reset();
  second.reset();
  CHECK(pool.available() == 2);
  Buffer one = pool.take().value();
  Buffer other = pool.take().value();
  CHECK(one.data() != other.data());
  CHECK(pool.take().code() == errc::no_memory);
}

TEST_CASE("C10: buffers come back from other threads, and outlive their pool") {
  Context context = only_tcp();
  std::optional<BufferPool> pool;
  pool.emplace(context, 64, 64);
  for (int round = 0; round < 200; ++round) {
    std::vector<Buffer> half;
    std::vector<Buffer> other_half;
    for (int i = 0; i < 32; ++i) {
      half.push_back(pool->take().value());
      other_half.push_back(pool->take().value());
    }
    std::thread a([b = std::move(half)]() mutable { b.clear(); });
    std::thread b([c = std::move(other_half)]() mutable { c.clear(); });
    a.join();
    b.join();
    CHECK(pool->available() == 64);
  }
  Buffer survivor = pool->take().value();
  pool.reset();
  fill(survivor.bytes(), 1);
  CHECK(filled(survivor.bytes(), 1));
}

TEST_CASE("C10: a pool ends while two threads give back what they hold, 2000 times") {
  Context context = only_tcp();
  std::atomic<int> round{0};
  std::atomic<int> done{0};
  std::array<std::vector<Buffer>, 2> held;
  const auto give_back = [&](std::vector<Buffer>& mine) {
    for (int r = 1; r <= 2000; ++r) {
      while (round.load() < r) std::this_thread::yield();
      mine.clear();
      done.fetch_add(1);
    }
  };
  std::thread one([&] { give_back(held[0]); });
  std::thread other([&] { give_back(held[1]); });
  for (int r = 1; r <= 2000; ++r) {
    std::optional<BufferPool> pool;
    pool.emplace(context, 64, 12);
    for (int i = 0; i < 4; ++i) {
      for (std::vector<Buffer>& h : held) h.push_back(pool->take().value());
    }
    Buffer mine = pool->take().value();
    round.store(r);
    pool.reset();
    fill(mine.bytes(), 1);
    mine.reset();
    while (done.load() < 2 * r) std::this_thread::yield();
  }
  one.join();
  other.join();
  CHECK(held[0].empty());
}

TEST_CASE("C10: taking and giving back takes nothing from the heap") {
  Context context = only_tcp();
  BufferPool pool(context, 64, 4);
  const std::uint64_t before = allocations();
  for (int i = 0; i < 100'000; ++i) {
    const Buffer one = pool.take().value();
    const Buffer two = pool.take().value();
  }
  CHECK(allocations() == before);
}

TEST_CASE("C10: a pool of nothing is refused") {
  Context context = only_tcp();
  CHECK_THROWS_AS(BufferPool(context, 0, 1), error);
  CHECK_THROWS_AS(BufferPool(context, 1, 0), error);
  CHECK_THROWS_AS(BufferPool(context, SIZE_MAX, 1), error);
  CHECK_THROWS_AS(BufferPool(context, SIZE_MAX / 2, 3), error);
}

namespace {

task<> take_in_turn(BufferPool* pool, int number, std::vector<int>* order) {
  const Buffer mine = co_await pool->get();
  order->push_back(number);
}

}  // namespace

TEST_CASE(
    "C8: n gets succeed, those after wait, and resume first come first served as buffers return") {
  Context context = only_tcp();
  reactor loop({.mode = wait_mode::polling});
  run(loop, [](Context* c, reactor* on) -> task<> {
    constexpr int count = 4;
    BufferPool pool(*c, 64, count);
    std::vector<Buffer> taken;
    for (int i = 0; i < count; ++i) {
      buffer_operation op = pool.get().start();
      CHECK(op.done());
      Buffer b = co_await op;
      taken.push_back(std::move(b));
    }
    CHECK(pool.take().code() == errc::no_memory);
    std::vector<int> order;
    scope waiting(*on);
    for (int i = 0; i < 6; ++i) waiting.spawn(take_in_turn(&pool, i, &order));
    for (int i = 0; i < 10; ++i) co_await yield();
    CHECK(order.empty());
    taken.pop_back();
    CHECK(pool.take().code() == errc::no_memory);  // it belongs to the first waiter
    // Each waiter that got the buffer returns it at its end, and so to the next.
    for (int i = 0; i < 100; ++i) co_await yield();
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
    CHECK(pool.available() == 1);
    co_await waiting.join();
  }(&context, &loop));
}

TEST_CASE(
    "C8: who no longer waits is passed over: canceled, destroyed, or given up with its pool") {
  Context context = only_tcp();
  reactor loop({.mode = wait_mode::polling});
  run(loop, [](Context* c) -> task<> {
    std::optional<BufferPool> pool;
    pool.emplace(*c, 64, 1);
    Buffer only = pool->take().value();
    buffer_operation canceled = pool->get().start();
    std::optional<buffer_operation> destroyed;
    destroyed.emplace(pool->get().start());
    buffer_operation third = pool->get().start();
    buffer_operation fourth = pool->get().start();
    canceled.cancel();
    destroyed.reset();
    only.reset();
    CHECK(third.done());
    CHECK_FALSE(fourth.done());
    CHECK(canceled.take_result().code() == errc::canceled);
    {
      const Buffer got = co_await third;
      CHECK(got);
      pool.reset();
      const result<Buffer> late = co_await fourth.result();
      CHECK(late.code() == errc::shutdown);
    }
  }(&context));
}

TEST_CASE("C8: a buffer that another thread gives back wakes who waits for it, 2000 times") {
  Context context = only_tcp();
  for (wait_mode mode : {wait_mode::polling, wait_mode::event}) {
    reactor loop({.mode = mode});
    run(loop, [](Context* c) -> task<> {
      BufferPool pool(*c, 64, 2);
      std::atomic<Buffer*> to_give{nullptr};
      std::atomic<bool> over{false};
      std::thread other([&] {
        while (!over.load()) {
          Buffer* const b = to_give.exchange(nullptr);
          if (b != nullptr) delete b;
        }
      });
      for (int round = 0; round < 1000; ++round) {
        Buffer mine = pool.take().value();
        Buffer away = co_await pool.get();
        buffer_operation waits = pool.get().start();
        CHECK_FALSE(waits.done());
        to_give.store(new Buffer(std::move(away)));
        const Buffer back = co_await waits;
      }
      over.store(true);
      other.join();
      CHECK(pool.available() == 2);
    }(&context));
  }
}

TEST_CASE("C8: many wait while another thread gives buffers back") {
  Context context = only_tcp();
  reactor loop({.mode = wait_mode::event});
  run(loop, [](Context* c) -> task<> {
    BufferPool pool(*c, 64, 2);
    std::array<std::atomic<Buffer*>, 2> to_give{};
    std::atomic<bool> over{false};
    std::thread other([&] {
      while (!over.load()) {
        for (std::atomic<Buffer*>& each : to_give) delete each.exchange(nullptr);
      }
    });
    for (int round = 0; round < 1000; ++round) {
      Buffer one = pool.take().value();
      Buffer two = pool.take().value();
      buffer_operation first = pool.get().start();
      to_give[0].store(new Buffer(std::move(one)));
      buffer_operation second = pool.get().start();
      to_give[1].store(new Buffer(std::move(two)));
      const Buffer a = co_await first;
      const Buffer b = co_await second;
    }
    over.store(true);
    other.join();
    CHECK(pool.available() == 2);
  }(&context));
}

TEST_CASE("C8: a range that leaves the buffer, and a pool of another thread, are refused") {
  Context context = only_tcp();
  BufferPool pool(context, 100, 2);
  const Buffer b = pool.take().value();
  CHECK(b.slice(0, 100).value().size() == 100);
  CHECK(b.slice(100, 0).ok());
  CHECK(b.slice(40, 60).value().data() == b.data() + 40);
  for (const auto& [offset, length] : {std::pair<std::size_t, std::size_t>{0, 101},
                                       {101, 0},
                                       {1, 100},
                                       {~std::size_t{0}, 2},
                                       {2, ~std::size_t{0}}}) {
    CHECK(b.slice(offset, length).code() == errc::invalid_value);
  }
  std::thread([&pool] {
    reactor elsewhere({.mode = wait_mode::polling});
    run(elsewhere, [](BufferPool* p) -> task<> {
      const result<Buffer> r = co_await p->get().result();
      CHECK(r.code() == errc::no_lock);
    }(&pool));
  }).join();
}

TEST_CASE("C8: waiting for a buffer takes nothing from the heap") {
  Context context = only_tcp();
  reactor loop({.mode = wait_mode::polling});
  run(loop, [](Context* c) -> task<> {
    BufferPool pool(*c, 64, 1);
    std::uint64_t before = 0;
    for (int i = 0; i < 10'000; ++i) {
      if (i == 100) before = allocations();
      Buffer first = pool.take().value();
      buffer_operation waits = pool.get().start();
      first.reset();
      const Buffer second = co_await waits;
    }
    CHECK(allocations() == before);
  }(&context));
}
