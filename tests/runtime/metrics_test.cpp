#include <cordma/runtime/metrics.hpp>
#include <cordma/runtime/reactor.hpp>

#include <thread>

#include "virtual_loop.hpp"

using namespace cordma;
using namespace cordma::test;

TEST_CASE("a snapshot shows every metric with its unit and meaning, in the order of adding") {
  metrics m;
  counter& sent = m.add_counter("sent", "bytes", "bytes sent");
  gauge& open = m.add_gauge("open", "", "connections open now");
  std::int64_t level = 7;
  m.add_source("level", "ns", "something else", [&level] { return level; });
  sent.add(10);
  sent.add();
  open.add(3);
  open.add(-1);
  level = 8;
  const std::vector<metric> all = m.snapshot();
  REQUIRE(all.size() == 3);
  CHECK(all[0].name == "sent");
  CHECK(all[0].value == 11);
  CHECK(all[0].unit == "bytes");
  CHECK(all[1].value == 2);
  CHECK(all[1].help == "connections open now");
  CHECK(all[2].value == 8);
}

TEST_CASE("one thread counts while another looks") {
  metrics m;
  counter& c = m.add_counter("c", "", "c");
  std::thread writer([&c] {
    for (int i = 0; i < 100'000; ++i) c.add();
  });
  std::int64_t last = 0;
  while (last < 100'000) {
    const std::int64_t now = m.snapshot()[0].value;
    CHECK(now >= last);
    last = now;
  }
  writer.join();
}

TEST_CASE("a reactor's counters can be shown") {
  virtual_loop v;
  metrics m;
  add_reactor(m, v.loop);
  v.loop.turn();
  const std::vector<metric> all = m.snapshot();
  CHECK(all.size() == 10);
  CHECK(all[0].name == "reactor.turns");
  CHECK(all[0].value == 1);
}
