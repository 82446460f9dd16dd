#include "world.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

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

// Faults that so many seeds are to inject, and did not.
std::string missing(const schedule::tally& sum) {
  const transport::sim::fault_counters& f = sum.faults;
  std::string out;
  for (const auto& [count, what] : std::initializer_list<std::pair<std::uint64_t, const char*>>{
           {f.delayed, "delay "},
           {f.lost, "loss "},
           {f.duplicated, "duplication "},
           {f.reordered, "reordering "},
           {f.partitioned, "partition "},
           {f.overflowed, "full link "},
           {f.full_adapters, "full adapter "},
           {f.to_dead_hosts, "dead host "},
           {f.stalls, "stall "},
           {f.kills, "death "},
           {f.failed_allocations, "failed allocation "},
           {f.failed_requests, "failed request "},
           {f.corrupted_completions, "corrupted completion "},
           {sum.isolated, "isolation "},
           {sum.one_way, "cut one way "},
           {sum.waited, "full send queue "}}) {
    if (count == 0) out += what;
  }
  return out;
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
  if (sum.seeds >= 2000) CHECK(missing(sum).empty());
  MESSAGE(sum.seeds << " seeds, " << sum.connections << " connections (" << sum.early
                    << " used before, " << sum.broken << " broken, " << sum.waited
                    << " requests waited for a full queue), " << sum.messages << " messages ("
                    << sum.canceled << " canceled, " << sum.truncated << " truncated, "
                    << sum.by_endpoint << " received by an endpoint), " << sum.calls
                    << " requests (" << sum.answered << " answered, " << sum.withdrawn
                    << " withdrawn or late), " << sum.sessions << " sessions (asked "
                    << sum.asked_again << " times again), " << sum.bytes
                    << " bytes of streams; faults: " << sum.faults.text() << ", isolated "
                    << sum.isolated << ", cut one way " << sum.one_way);
}
