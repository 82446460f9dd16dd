// Compares the histogram of cordma-perf with the sorted samples themselves.
#include "../../apps/support/histogram.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using support::histogram;

namespace {

constexpr double three_digits = 1e-3;

struct recorded {
  histogram counted;
  std::vector<std::uint64_t> sorted;
};

template <class Distribution>
recorded record(Distribution each, std::size_t n, std::uint64_t seed) {
  recorded r;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < n; ++i) {
    const double value = std::max(0.0, each(random));
    const auto ticks = static_cast<std::uint64_t>(value);
    r.sorted.push_back(ticks);
    r.counted.record(ticks);
  }
  std::sort(r.sorted.begin(), r.sorted.end());
  return r;
}

// Returns the smallest sample that at least this share of all samples does not exceed.
std::uint64_t exact(const recorded& r, double share) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(r.sorted.size())));
  return r.sorted[std::max<std::size_t>(rank, 1) - 1];
}

// `step`: resolution of the clock, in ticks.
void require_alike(const recorded& r, double step = 1) {
  for (double share : {0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999}) {
    CAPTURE(share);
    const auto expected = static_cast<double>(exact(r, share));
    CHECK(std::fabs(r.counted.at(share) - expected) <= std::max(three_digits * expected, step / 2));
  }
  CHECK(r.counted.min() == r.sorted.front());
  CHECK(r.counted.max() == r.sorted.back());
  CHECK(r.counted.count() == r.sorted.size());
}

}  // namespace

TEST_CASE("percentiles have three digits from 1 ns to 100 s, whatever the distribution [4 seeds]") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    // Ticks of 0.33 ns: from 1 ns to 100 s there are eleven decades, evenly on a logarithmic scale.
    std::uniform_real_distribution<double> decades(std::log(3.0), std::log(3e11));
    require_alike(record([&](auto& random) { return std::exp(decades(random)); }, 100'000, seed));
    std::lognormal_distribution<double> latencies(8.0, 1.0);
    require_alike(record(latencies, 1'000'000, seed));
  }
}

TEST_CASE("a clock of longer steps is told from samples that are few [steps of 1, 20, 36 ticks]") {
  for (double step : {1.0, 20.0, 36.0}) {
    CAPTURE(step);
    std::lognormal_distribution<double> latencies(6.0, 0.3);
    require_alike(record([&](auto& random) { return std::round(latencies(random) / step) * step; },
                         100'000, 5),
                  step);
  }
  histogram two;
  for (int i = 0; i < 1000; ++i) two.record(i % 2 == 0 ? 200 : 232);
  CHECK(two.at(0.25) == doctest::Approx(200).epsilon(0.003));
  CHECK(two.at(0.75) == doctest::Approx(232).epsilon(0.003));
}

TEST_CASE("one outlier among a million shows in the maximum, the mean and the last percentile") {
  histogram h;
  for (int i = 0; i < 999'999; ++i) h.record(1000);
  h.record(3'000'000'000);
  CHECK(h.max() == 3'000'000'000);
  CHECK(h.mean() == doctest::Approx((999'999 * 1000.0 + 3e9) / 1e6));
  CHECK(h.deviation() == doctest::Approx(3e6).epsilon(0.01));
  CHECK(h.at(0.999999) < 1001);
  CHECK(h.at(1) == 3e9);
  CHECK(h.curve().back() == std::pair<double, double>(1, 3e9));
}

TEST_CASE("how many samples lie beyond a percentile is counted exactly") {
  histogram h;
  for (std::uint64_t i = 0; i < 100'000; ++i) h.record(i);
  CHECK(h.beyond(0.5) == 50'000);
  CHECK(h.beyond(0.99) == 1000);
  CHECK(h.beyond(0.999) == 100);
  CHECK(h.beyond(0.99999) == 1);
  CHECK(h.beyond(1) == 0);
  CHECK(histogram().beyond(0.5) == 0);
}

TEST_CASE("histograms of several flows add up to that of all") {
  recorded all;
  histogram sum;
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latencies(7.0, 2.0);
  for (int flow = 0; flow < 5; ++flow) {
    histogram one;
    for (int i = 0; i < 10'000; ++i) {
      const auto ticks = static_cast<std::uint64_t>(latencies(random));
      one.record(ticks);
      all.counted.record(ticks);
    }
    sum.add(one);
  }
  CHECK(sum.count() == 50'000);
  CHECK(sum.min() == all.counted.min());
  CHECK(sum.max() == all.counted.max());
  CHECK(sum.mean() == doctest::Approx(all.counted.mean()));
  CHECK(sum.curve() == all.counted.curve());
  sum.clear();
  CHECK(sum.count() == 0);
  CHECK(sum.max() == 0);
  CHECK(sum.curve().empty());
}

TEST_CASE("a curve rises with its shares and ends where one sample is left") {
  const recorded r = record(std::lognormal_distribution<double>(8.0, 1.0), 12'345, 3);
  const auto curve = r.counted.curve();
  CHECK(std::is_sorted(curve.begin(), curve.end()));
  CHECK(curve.front().first == 0);
  CHECK(curve.back().first == 1);
  CHECK(curve[curve.size() - 2].first > 1 - 2.0 / 12'345);
  for (std::size_t i = 1; i < curve.size(); ++i) CHECK(curve[i].second >= curve[i - 1].second);
}
