// A connection that has ended sends nothing more.
#include "told.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <chrono>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

long packets_sent() { return std::stol(told("rdma-counter sent_pkts")); }

// Blocks the thread, so that nothing is polled.
void keep_busy(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {}
}

task<> go_on(int passes) {
  for (int i = 0; i < passes; ++i) co_await yield();
}

}  // namespace

TEST_CASE("K10: a goodbye that was said twice is answered twice, and then both ends fall silent") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    auto closing = w.client.close().start();
    keep_busy(std::chrono::milliseconds(50));  // longer than it waits for a reply
    co_await closing;
    while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
    co_await go_on(20'000);
    const long before = packets_sent();
    co_await go_on(20'000);
    CHECK(packets_sent() - before < 10);  // rdma_cm may send a last message
  });
}
