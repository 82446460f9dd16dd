// Measures a limit: batches of identical steps, each batch timed as a whole.
//
// Single steps are as short as the clock's own cost (some 20 ns), so the clock is read once per
// batch, and the distribution is one of batch means. Plain C++, independent of cordma.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace limits {

enum class wait_mode : std::uint8_t { polling, event };

[[nodiscard]] constexpr std::string_view name_of(wait_mode wait) noexcept {
  return wait == wait_mode::polling ? "polling" : "event";
}

/// Object, CPUs and number of steps of a measurement.
struct settings {
  std::size_t size = 8;          ///< bytes per message or copy
  std::uint64_t iterations = 0;  ///< steps counted, all batches together
  std::uint64_t batches = 100;   ///< batches counted; one more runs first and is thrown away
  int peer_cpu = 0;              ///< where the answering side is pinned
  int own_cpu = 1;               ///< where the measuring side is pinned
  wait_mode wait = wait_mode::polling;

  [[nodiscard]] std::uint64_t steps_per_batch() const noexcept {
    return std::max<std::uint64_t>(1, iterations / batches);
  }
  /// Steps of the complete run, including the warm-up batch: both sides count up to this.
  [[nodiscard]] std::uint64_t steps_in_all() const noexcept {
    return (batches + 1) * steps_per_batch();
  }
};

/// Five figures of a set of batches; the caller chooses the unit.
struct distribution {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double min = 0;
  double max = 0;
};

/// REQUIRES: at least one sample. The percentile is the nearest rank, so it is a measured value.
[[nodiscard]] inline distribution distribution_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto nearest_rank = [&samples](std::size_t percent) {
    return samples[(samples.size() * percent + 99) / 100 - 1];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.mean = sum / static_cast<double>(samples.size()),
          .p50 = nearest_rank(50),
          .p99 = nearest_rank(99),
          .min = samples.front(),
          .max = samples.back()};
}

/// The result of one limit: a one-way latency or a bandwidth, never both.
struct measurement {
  std::string test;
  settings how;
  enum class kind : std::uint8_t { one_way_us, bandwidth_GBps } what = kind::one_way_us;
  distribution batches;  ///< of batch means, in the unit that `what` names
  double overall = 0;    ///< over all batches, from the first step to the last acknowledged one
};

using clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(clock::time_point start) noexcept {
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// Seconds that each counted batch took. `step_many(n)` does n steps.
template <typename StepMany>
[[nodiscard]] std::vector<double> time_batches(const settings& how, StepMany&& step_many) {
  std::vector<double> seconds;
  seconds.reserve(how.batches);
  for (std::uint64_t batch = 0; batch < how.batches; ++batch) {
    const auto start = clock::now();
    step_many(how.steps_per_batch());
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

/// Turns batches of round trips into one-way microseconds: half of a round trip, as every
/// ping-pong tool of this comparison reports it.
[[nodiscard]] inline measurement one_way(std::string test, const settings& how,
                                         std::vector<double> seconds) {
  const auto steps = static_cast<double>(how.steps_per_batch());
  for (double& value : seconds) {
    value = value / steps / 2 * 1e6;
  }
  measurement made{.test = std::move(test), .how = how, .batches = distribution_of(seconds)};
  made.overall = made.batches.mean;
  return made;
}

/// Turns batches of copies or messages into GB/s (1e9 bytes). `total_seconds` spans all of them.
[[nodiscard]] inline measurement bandwidth(std::string test, const settings& how,
                                           std::vector<double> seconds, double total_seconds) {
  const auto bytes = static_cast<double>(how.steps_per_batch()) * static_cast<double>(how.size);
  for (double& value : seconds) {
    value = bytes / value / 1e9;
  }
  return {.test = std::move(test),
          .how = how,
          .what = measurement::kind::bandwidth_GBps,
          .batches = distribution_of(seconds),
          .overall = bytes * static_cast<double>(how.batches) / total_seconds / 1e9};
}

}  // namespace limits
