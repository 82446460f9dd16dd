// Options and results of a benchmark.
#pragma once

#include "../../support/conditions.hpp"
#include "../../support/histogram.hpp"
#include "../native/client.hpp"
#include "service.hpp"
#include "workload.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv::cli {

inline constexpr std::uint64_t most_records = 999'999'999'999;  // limited by the digits of a key
inline constexpr std::uint32_t most_clients = 256;
inline constexpr std::uint32_t most_in_flight = 64;  // requests of one client
// modify counts as two operations
inline constexpr std::uint32_t most_in_batch = native::most_operations / 2;

struct bench_options {
  const mix* what = &mixes[0];
  std::optional<spread> records_spread = {};  // empty: the mix's default
  std::uint64_t records = 100'000;
  std::uint64_t operations = 0;  // 0: limited by duration_s
  double duration_s = 5;
  double warmup_s = 1;
  std::uint32_t value_bytes = 64;
  std::uint32_t clients = 1;
  std::uint32_t batch = 1;      // operations sent together
  std::uint32_t in_flight = 1;  // batches, or single operations, of one client
  double target_hz = 0;         // operations per second of all clients; 0: no limit
  bool load = true;
  std::uint64_t seed = 1;
  int server_pid = 0;  // 0: unknown

  [[nodiscard]] spread spread_of_records() const noexcept {
    return records_spread.value_or(what->records);
  }
};

// Results of one client, or of all. Times are in ticks.
struct tally {
  std::array<support::histogram, steps> times;
  std::uint64_t misses = 0;    // reads of keys that do not exist
  std::uint64_t wrong = 0;     // reads that returned the value of another key
  std::uint64_t failures = 0;  // operations that the server did not execute
  std::string first_failure = {};
  client_counters paths = {};  // native

  [[nodiscard]] std::uint64_t operations() const noexcept;
  [[nodiscard]] support::histogram all() const;
  void add(const tally& more);
};

// CPU times, in nanoseconds.
struct cpu_times {
  std::int64_t client_ns = 0;
  std::optional<std::int64_t> server_ns = {};
};

struct bench_result {
  bench_options asked;
  std::string server;
  std::string over;  // "shm", "tcp", "verbs", or "resp"
  bool one_sided = false;
  cordma::wait_mode wait = cordma::wait_mode::adaptive;
  double load_s = 0;  // 0: nothing was loaded
  double elapsed_s = 0;
  double ns_per_tick = 1;
  tally found;
  cpu_times spent;
  bool interrupted = false;
  support::conditions under;

  [[nodiscard]] double rate_hz() const noexcept {
    return elapsed_s > 0 ? static_cast<double>(found.operations()) / elapsed_s : 0;
  }
  [[nodiscard]] bool valid() const noexcept { return found.wrong == 0 && found.failures == 0; }
};

// Throws std::exception: those of client and resp_client, and std::runtime_error if there is
// nothing to measure.
[[nodiscard]] bench_result run_bench(const service& s, const bench_options& o);

// Returns why `pid`'s CPU time cannot be measured, or an empty string if it can.
[[nodiscard]] std::string why_not_measurable(int pid);

[[nodiscard]] std::string to_table(const bench_result& r);
[[nodiscard]] std::string to_json(const bench_result& r);

}  // namespace kv::cli
