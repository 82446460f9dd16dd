// What a run found out, for the table and for JSON.
#pragma once

#include "conditions.hpp"
#include "plan.hpp"
#include "usage.hpp"

#include <optional>
#include <string>
#include <vector>

namespace perf {

struct latency {  // microseconds
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};

struct outcome {
  plan asked;
  std::uint64_t iterations = 0;  // carried out in the measured phase
  std::string transport;
  std::string reason;       // why this transport
  std::string peer;         // address
  std::string server_wait;  // the server's waiting mode: its own option where it is another program
  std::optional<latency> time;  // of one way in ping-pong, of a whole operation one by one
  double elapsed_s = 0;
  usage client;
  usage server;
  cordma::endpoint_counters counters;   // of the client's endpoint, warm-up included
  std::vector<std::string> complaints;  // why it is not valid; empty where it is

  [[nodiscard]] bool valid() const noexcept { return complaints.empty(); }
  // Messages over the wire, both ways together in ping-pong.
  [[nodiscard]] double messages() const noexcept {
    const bool both = facts(asked.what).form == shape::ping_pong;
    return static_cast<double>(iterations) * (both ? 2 : 1);
  }
  [[nodiscard]] double rate_Mps() const noexcept { return messages() / elapsed_s / 1e6; }
  [[nodiscard]] double bandwidth_GBps() const noexcept {
    return messages() * static_cast<double>(asked.size) / elapsed_s / 1e9;
  }
  [[nodiscard]] double cpu_ns_per_message(const usage& u) const noexcept {
    return static_cast<double>(u.cpu_ns) / messages();
  }
};

// Percent of one core.
[[nodiscard]] inline double cpu_percent(const usage& u) noexcept {
  return u.elapsed_ns <= 0
             ? 0
             : 100.0 * static_cast<double>(u.cpu_ns) / static_cast<double>(u.elapsed_ns);
}

// The object that --json writes, as text; several of them as an array.
[[nodiscard]] std::string to_json(const std::vector<outcome>& outcomes, const conditions& under,
                                  bool as_array);

// Lines for people.
[[nodiscard]] std::string table_heading();
[[nodiscard]] std::string table_row(const outcome& o);
[[nodiscard]] std::string details(const outcome& o);

}  // namespace perf
