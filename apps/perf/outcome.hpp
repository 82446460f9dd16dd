// Results of a run, for the table and for JSON.
#pragma once

#include "../support/histogram.hpp"
#include "conditions.hpp"
#include "plan.hpp"
#include "usage.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace perf {

struct percentile {
  const char* name;
  double share;
};
inline constexpr std::array<percentile, 6> percentiles{{
    {"p50", 0.5},
    {"p90", 0.9},
    {"p99", 0.99},
    {"p999", 0.999},
    {"p9999", 0.9999},
    {"p99999", 0.99999},
}};

struct latency {  // in microseconds
  std::uint64_t n = 0;
  double min = 0;
  double mean = 0;
  double deviation = 0;
  double max = 0;
  std::array<double, percentiles.size()> at{};
  std::array<std::uint64_t, percentiles.size()> beyond{};  // samples
  std::vector<std::pair<double, double>> curve;            // histogram::curve()
};
[[nodiscard]] latency summary(const support::histogram& samples, double us_per_tick);

// Costs of a run on one side.
struct side {
  usage spent;
  std::string wait;
  std::int64_t wake_cost_ns = 0;               // 0: not measured in this mode
  std::optional<double> syscalls_per_message;  // counted after the measured phase
};

// Average number of requests in flight: counted, and by Little's law.
struct little {
  double in_flight = 0;
  double rate_times_latency = 0;
  bool checked = false;  // there are enough measurements for the check
  [[nodiscard]] bool holds() const noexcept;
};

struct outcome {
  plan asked;
  std::uint64_t iterations = 0;  // completed in the measured phase by all flows
  std::string transport;
  std::string reason;  // of the choice of the transport
  std::string peer;    // its address
  std::uint32_t depth = 0;
  std::uint32_t inline_limit = 0;
  // Of a round trip, or of a complete operation; open loop: of a request, from its intended start.
  std::optional<latency> time;
  std::optional<latency> actual;  // open loop: from the actual start
  std::optional<latency> lag;     // open loop: between the two, if there was free space
  double load_hz = 0;             // open loop: requested load
  double elapsed_s = 0;
  side client;
  side server;
  std::string no_syscalls;  // why they were not counted
  std::optional<little> law;
  cordma::endpoint_counters counters;   // of the client's first connection, including the warm-up
  bool interrupted = false;             // ended before it was complete
  bool broken_off = false;              // ended in the middle of a phase
  bool by_hand = false;                 // ended by Ctrl-C
  std::vector<std::string> complaints;  // why it is not valid; empty: it is valid
  std::vector<std::string> notes;       // other remarks

  [[nodiscard]] bool valid() const noexcept { return complaints.empty(); }
  // Messages on the wire in both directions.
  [[nodiscard]] double messages() const noexcept {
    const test_facts& f = asked.facts();
    if (f.form == pattern::idle) return 0;
    const bool both = f.ping_pong() || f.form == pattern::both_ways;
    return static_cast<double>(iterations) * (both ? 2 : 1);
  }
  [[nodiscard]] double rate_Mps() const noexcept {
    return elapsed_s > 0 ? messages() / elapsed_s / 1e6 : 0;
  }
  [[nodiscard]] double bandwidth_GBps() const noexcept {
    return elapsed_s > 0 ? messages() * static_cast<double>(asked.size) / elapsed_s / 1e9 : 0;
  }
  // A value of one side, per message.
  [[nodiscard]] double per_message(double value) const noexcept {
    return messages() > 0 ? value / messages() : 0;
  }
  [[nodiscard]] double cpu_ns_per_message(const side& s) const noexcept {
    return per_message(static_cast<double>(s.spent.cpu_ns));
  }
};

// Percent of one core.
[[nodiscard]] inline double cpu_percent(const usage& u) noexcept {
  return u.elapsed_ns <= 0
             ? 0
             : 100.0 * static_cast<double>(u.cpu_ns) / static_cast<double>(u.elapsed_ns);
}

// A run without results, and the reason.
struct failed_run {
  plan asked;
  std::string why;
};
// Exactly one of the two is set.
struct run_result {
  std::unique_ptr<outcome> found;
  failed_run failed;
};

// Text for --json: one object, or an array of objects.
[[nodiscard]] std::string to_json(const std::vector<run_result>& results, const conditions& under,
                                  bool as_array);

// Lines of the table.
[[nodiscard]] std::string table_heading();
[[nodiscard]] std::string table_row(const outcome& o);
[[nodiscard]] std::string details(const outcome& o);

}  // namespace perf
