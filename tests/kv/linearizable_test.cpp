// The checker finds impossible histories; clients' observations of a server, by one-sided reads and
// by requests, are linearizable.
#include "linearizable.hpp"
#include "native_ground.hpp"
#include "storm.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <atomic>
#include <memory>
#include <thread>

using namespace kv;
using namespace kv::test;

namespace {

event set(instant start, instant end, value_id v) {
  return {.what = event::kind::set, .written = v, .start = start, .end = end};
}
event get(instant start, instant end, value_id v) {
  return {.what = event::kind::get, .seen = v, .start = start, .end = end};
}
event erase(instant start, instant end, value_id v) {
  return {.what = event::kind::erase, .seen = v, .start = start, .end = end};
}
event swap(instant start, instant end, value_id expected, value_id v, bool made,
           value_id seen = nothing) {
  return {.what = event::kind::swap,
          .written = v,
          .expected = expected,
          .seen = seen,
          .swapped = made,
          .start = start,
          .end = end};
}
bool possible(std::vector<event> history, may_vanish vanishing = {}) {
  return linearizer(std::move(history), std::move(vanishing)).check().empty();
}

}  // namespace

TEST_CASE("the checker knows what may have happened, and what cannot have") {
  CHECK(possible({}));
  CHECK(possible({set(0, 10, 1), get(20, 30, 1)}));
  CHECK(possible({set(0, 10, 1), get(5, 6, nothing), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 10, 1), get(20, 30, nothing)}));
  CHECK_FALSE(possible({set(0, 10, 1), get(2, 3, 1), get(4, 5, nothing)}));  // absent again
  CHECK_FALSE(possible({set(0, 10, 1), set(20, 30, 2), get(40, 50, 1)}));
  CHECK(possible({set(0, 50, 1), set(20, 30, 2), get(60, 70, 1)}));
  CHECK_FALSE(possible({set(0, 50, 1), set(20, 30, 2), get(60, 70, 1), get(80, 90, 2)}));
  CHECK_FALSE(possible({set(0, 1, 1), erase(2, 3, 1), get(4, 5, 1)}));
  CHECK(possible({set(0, 1, 1), swap(2, 3, 1, 2, true), get(4, 5, 2)}));
  CHECK_FALSE(possible({set(0, 1, 1), swap(2, 9, 1, 2, true), swap(2, 9, 1, 3, true)}));
  CHECK(possible({set(0, 1, 1), swap(2, 9, 1, 2, true), swap(2, 9, 1, 3, false, 2)}));
  // It is unknown whether the second write took effect: both values may be seen, but not
  // alternately.
  CHECK(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 1), get(7, 8, 2)}));
  CHECK(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 1), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 2), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 1, 1), get(5, 6, nothing)}));
  CHECK(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = true, .expiry = {}}));
  CHECK_FALSE(
      possible({set(0, 1, 1), get(5, 6, nothing), get(7, 8, 1)}, {.any_time = true, .expiry = {}}));
  CHECK(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = false, .expiry = {0, 6}}));
  CHECK_FALSE(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = false, .expiry = {0, 7}}));
}

namespace {

void storm_it(native_server& server, const may_vanish& vanishing) {
  std::vector<std::unique_ptr<storm>> storms;
  std::vector<std::thread> threads;
  const std::size_t operations = cordma::test::rounds_under_test(20'000, 2'000);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto connect = [&server, i] {
      return std::make_unique<blocking_client>(
          server.address(),
          client_options{.gets = i % 3 != 0 ? way_of_gets::one_sided : way_of_gets::asked});
    };
    storms.push_back(std::make_unique<storm>(connect, i));
    threads.emplace_back([&s = *storms.back(), operations] {
      for (std::size_t n = 0; n < operations; ++n) s.step();
    });
  }
  for (std::thread& t : threads) t.join();
  std::uint64_t one_sided = 0;
  std::uint64_t broken = 0;
  for (const auto& s : storms) {
    one_sided += s->one_sided();
    broken += s->broken();
  }
  CHECK(broken == 0);
  CHECK(one_sided > operations / 4);
  check_histories(storms, vanishing);
}

}  // namespace

TEST_CASE(
    "what six clients see of keys that all of them change could have happened one after the "
    "other") {
  native_server server({}, 2, {.hash_seed = 3, .quarantine_ms = 500});
  storm_it(server, {});
}

TEST_CASE("... and so it could where keys are given up for want of memory") {
  native_server server({}, 1,
                       {.hash_seed = 3,
                        .max_bytes = 12 * segment_bytes,
                        .policy = eviction::allkeys_random,
                        .quarantine_ms = 500});
  std::atomic<bool> over{false};
  std::thread crowd([&] {  // writes more keys, which evict the others
    blocking_client c(server.address(), {.gets = way_of_gets::one_sided});
    const std::string value(2'000, 'x');
    batch b;
    for (std::uint64_t i = 0; !over.load(); ++i) {
      b.clear();
      for (std::uint64_t k = 0; k < 16; ++k) b.set("crowd" + std::to_string(i * 16 + k), value);
      c.run(b);
    }
  });
  storm_it(server, {.any_time = true, .expiry = {}});
  over = true;
  crowd.join();
  server.there([](keyspace& k) { CHECK(k.at(0).counters().evicted > 0); });
}
