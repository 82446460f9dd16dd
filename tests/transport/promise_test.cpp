// Every guarantee of the transports that is broken on purpose is detected, and the message contains
// the values.
#include <doctest/doctest.h>

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/event_queue.hpp>
#include <cordma/net/transport/region_table.hpp>
#include <cordma/net/transport/shm/ring.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/queues.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/last_words.hpp"

using namespace cordma;
using testing::last_words;
using testing::says;

namespace {

enum class light : std::uint8_t { red, amber, green };
constexpr bool operator>>(light before, light next) noexcept {
  return next == light::red || (before == light::red && next == light::green);
}

// The states that may follow each state, from the first to the last: one word of digits per state.
template <class State>
std::string followers(State last) {
  const auto count = static_cast<std::size_t>(last) + 1;
  std::string all;
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (static_cast<State>(from) >> static_cast<State>(to)) all += std::to_string(to);
    }
    all += ' ';
  }
  return all;
}

}  // namespace

TEST_CASE("of each state of a connection all that may follow, and nothing else") {
  CHECK(followers(transport::shm::pair_state::over) == "124 24 34 4 05  ");
  CHECK(followers(transport::shm::arrival::fetched) == "12 0 0 ");
  CHECK(followers(transport::shm::farewell::said) == "1 2  ");
  CHECK(followers(transport::sim::pair_state::error) == "12346 46 46 46 56 6  ");
  CHECK(followers(transport::tcp::life_phase::dead) == "1249 49 39 249 579 679 79 89 9 9 ");
}

TEST_CASE("one completion for each request: none is done that was not carried out") {
  const std::string said = last_words([] {
    transport::tcp::send_queue q(4, 1, 0);
    q[0] = q[1] = {};
    q.post();
    q.begin(0);
    CHECK(q.acknowledge(2));
    q.check();
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: acked_ - taken_ <= sent_ - taken_, with 2 and 1"));
}

TEST_CASE("one completion for each request: no more are in flight than there are places") {
  const std::string said = last_words([] {
    transport::tcp::send_queue q(4, 1, 0);
    for (int i = 0; i < 5; ++i) q.post();
    q.flush();
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: posted_ - taken_ <= capacity(), with 5 and 4"));
}

TEST_CASE("a state becomes only what may follow") {
  const std::string said = last_words([] {
    transport::checked_state<light> now(light::red);
    now.become(light::green);
    now.become(light::amber);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: now_ >> next, with 2 and 1"));
}

TEST_CASE("every slot has an owner: a region is given back once") {
  const std::string said = last_words([] {
    transport::region_table table;
    std::array<std::byte, 64> bytes{};
    const transport::memory_range range{.addr = bytes.data(), .length = bytes.size()};
    const std::uint32_t lkey = table.add(range).value().lkey;
    table.remove(lkey);
    table.remove(lkey);
  });
  CAPTURE(said);
  CHECK(says(said, "with 0 and 0"));
  CHECK(says(said, "e->rkey.load(std::memory_order_relaxed) != 0U"));
}

TEST_CASE("the accounts balance at the end: room for an event is there when its owner goes") {
  const std::string said = last_words([] {
    transport::event_queue events;
    transport::cm_event ended;
    ended.pair = reinterpret_cast<transport::queue_pair*>(&events);
    const transport::event_queue::room room(events, 1);
    events.report(std::move(ended));  // and no code drops it
  });
  CAPTURE(said);
  CHECK(
      says(said,
           "REQUIRE failed: in_.spare_.size() >= static_cast<std::size_t>(events_), with 0 and 1"));
}

TEST_CASE("an index of a ring is a place in it: the ring is as long as its mask says") {
  const std::string said = last_words([] {
    alignas(64) static std::array<std::byte, 6144> cells{};
    transport::shm::ring_control control{};
    const transport::shm::ring_writer writer(cells.data(), cells.size(), &control);
    static_cast<void>(writer);
  });
  CAPTURE(said);
  CHECK(says(said, "REQUIRE failed: std::popcount(bytes) == 1, with 2 and 1"));
}
