// A random program of messages, requests and streams among simulated hosts, under a random schedule of faults: one
// seed decides all of it.
#pragma once

#include <cordma/net/transport/sim/sim.hpp>

#include <cstdint>
#include <string>

namespace cordma::schedule {

// What so many seeds did, for people to see that something was tested.
struct tally {
  std::uint64_t seeds = 0;
  std::uint64_t connections = 0;
  std::uint64_t early = 0;   // of them: used before they were there
  std::uint64_t broken = 0;  // of them
  std::uint64_t waited = 0;  // requests that found their queue full
  std::uint64_t messages = 0;
  std::uint64_t canceled = 0;
  std::uint64_t truncated = 0;
  std::uint64_t by_endpoint = 0;  // received there
  std::uint64_t bytes = 0;        // of streams
  std::uint64_t calls = 0;        // of every kind, those of sessions included
  std::uint64_t answered = 0;     // of them, with a response or a receipt
  std::uint64_t withdrawn = 0;    // canceled, late, or destroyed in flight
  std::uint64_t asked_again = 0;  // by sessions
  std::uint64_t sessions = 0;
  std::uint64_t isolated = 0;  // hosts
  std::uint64_t one_way = 0;   // cuts
  transport::sim::fault_counters faults;
};

// What was found wrong, first things first; empty: nothing.
[[nodiscard]] std::string play(std::uint64_t seed, tally& sum);

}  // namespace cordma::schedule
