#include "world.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

using namespace cordma;

namespace {

struct range {
  std::uint64_t first;
  std::uint64_t count;
};

// CORDMA_TEST_SEEDS: "first" or "first+count".
range seeds_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_SEEDS");
  if (named == nullptr) return {.first = 1, .count = test::rounds_under_test(2000)};
  const std::string asked = named;
  const std::size_t plus = asked.find('+');
  const std::uint64_t count = plus == std::string::npos ? 1 : std::stoull(asked.substr(plus + 1));
  return {.first = std::stoull(asked), .count = count};
}

}  // namespace

TEST_CASE("random programs under random faults: nothing wrong, lost, doubled or hanging") {
  const range seeds = seeds_under_test();
  schedule::tally sum;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const std::string complaint = schedule::play(seed, sum);
    if (complaint.empty()) continue;
    FAIL_CHECK("seed " << seed << ": " << complaint << "; CORDMA_TEST_SEEDS=" << seed
                       << " test_schedule replays it");
  }
  MESSAGE(sum.seeds << " seeds, " << sum.connections << " connections (" << sum.broken
                    << " broken), " << sum.messages << " messages (" << sum.canceled
                    << " canceled, " << sum.truncated << " truncated), " << sum.bytes
                    << " bytes of streams; faults: " << sum.faults.text());
}
