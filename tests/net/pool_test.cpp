// BufferPool: fixed, fast, and every buffer comes back once.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <set>
#include <thread>

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
}
