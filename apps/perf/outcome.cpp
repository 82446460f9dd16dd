#include "outcome.hpp"

#include <cmath>

namespace perf {

latency summary(const support::histogram& samples, double us_per_tick) {
  latency t;
  t.n = samples.count();
  t.min = static_cast<double>(samples.min()) * us_per_tick;
  t.mean = samples.mean() * us_per_tick;
  t.deviation = samples.deviation() * us_per_tick;
  t.max = static_cast<double>(samples.max()) * us_per_tick;
  for (std::size_t i = 0; i < percentiles.size(); ++i) {
    t.at[i] = samples.at(percentiles[i].share) * us_per_tick;
    t.beyond[i] = samples.beyond(percentiles[i].share);
  }
  t.curve = samples.curve();
  for (auto& point : t.curve) point.second *= us_per_tick;
  return t;
}

bool little::holds() const noexcept {
  constexpr double tolerance = 0.05;
  return std::fabs(rate_times_latency - in_flight) <= tolerance * in_flight;
}

}  // namespace perf
