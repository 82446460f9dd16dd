// A random program of messages, requests and streams among simulated hosts, under a random schedule
// of faults. The seed determines all of it.
#pragma once

#include <cordma/net/transport/sim/sim.hpp>

#include <cstdint>
#include <string>

namespace cordma::schedule {

// Events in a number of seeds, as evidence that they were tested.
struct tally {
  std::uint64_t seeds = 0;
  std::uint64_t connections = 0;
  std::uint64_t early = 0;   // of these: used before they were connected
  std::uint64_t broken = 0;  // of these
  std::uint64_t waited = 0;  // requests that found their queue full
  std::uint64_t messages = 0;
  std::uint64_t canceled = 0;
  std::uint64_t turned_away = 0;  // would have had to wait: messages, and stream operations
  std::uint64_t truncated = 0;
  std::uint64_t by_endpoint = 0;  // received by an endpoint
  std::uint64_t announced = 0;    // sent by rendezvous
  std::uint64_t longest = 0;      // bytes that arrived in one message
  std::uint64_t probed = 0;       // and then claimed or received
  std::uint64_t claimed = 0;
  std::uint64_t claims_late = 0;     // of these: read later
  std::uint64_t claims_dropped = 0;  // of these: dropped rendezvous messages
  std::uint64_t bytes = 0;           // of streams
  std::uint64_t peeked = 0;          // of these
  std::uint64_t uncopied = 0;        // pieces written from registered memory
  std::uint64_t mapped = 0;          // regions
  std::uint64_t written_at = 0;      // pieces that found their region
  std::uint64_t torn = 0;            // streams that were destroyed during the traffic
  std::uint64_t stream_cancels = 0;  // reads and writes
  std::uint64_t streams_well = 0;    // directions written to the end and closed
  std::uint64_t pools = 0;
  std::uint64_t borrowed = 0;
  std::uint64_t borrows_withdrawn = 0;
  std::uint64_t evictions = 0;
  std::uint64_t pooled = 0;  // messages, sent over pools
  std::uint64_t closed = 0;  // connections of messages that a program ended: gracefully
  std::uint64_t closed_well = 0;
  std::uint64_t aborted = 0;
  std::uint64_t destroyed = 0;
  std::uint64_t stopped = 0;       // hosts with destroyed Messages
  std::uint64_t workers_gone = 0;  // of these: their Worker was destroyed too
  std::uint64_t crowds = 0;        // worlds of more than five hosts
  std::uint64_t by_default = 0;    // hosts with message_options{}
  std::uint64_t railed = 0;        // connections with several rails
  std::uint64_t harmed_rails = 0;  // devices
  std::uint64_t calls = 0;         // of every kind, including those of sessions
  std::uint64_t answered = 0;      // of these, with a response or an acknowledgement
  std::uint64_t withdrawn = 0;     // canceled, late, or destroyed in flight
  std::uint64_t asked_again = 0;   // by sessions
  std::uint64_t sessions = 0;
  std::uint64_t isolated = 0;  // hosts
  std::uint64_t one_way = 0;   // cuts
  transport::sim::fault_counters faults;
};

// Returns the errors found, in order; empty: none.
[[nodiscard]] std::string play(std::uint64_t seed, tally& sum);

}  // namespace cordma::schedule
