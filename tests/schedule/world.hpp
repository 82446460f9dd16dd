// A random program of messages and streams among simulated hosts, under a random schedule of faults: one seed
// decides all of it.
#pragma once

#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::schedule {

// What so many seeds did, for people to see that something was tested.
struct tally {
  std::uint64_t seeds = 0;
  std::uint64_t connections = 0;
  std::uint64_t broken = 0;  // of them
  std::uint64_t messages = 0;
  std::uint64_t canceled = 0;
  std::uint64_t truncated = 0;
  std::uint64_t bytes = 0;  // of streams
  transport::sim::fault_counters faults;
};
void add(transport::sim::fault_counters& sum, const transport::sim::fault_counters& more) noexcept;

// What was found wrong, first things first; empty: nothing.
[[nodiscard]] std::string play(std::uint64_t seed, tally& sum);

}  // namespace cordma::schedule
