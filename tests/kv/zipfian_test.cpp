// Requests of the benchmark of cordma-kv-cli: records, their frequencies, and the mix.
#include "../../apps/kv/cli/zipfian.hpp"
#include "../../apps/kv/cli/records.hpp"
#include "../../apps/kv/cli/workload.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace kv::cli;

namespace {

double zeta(std::uint64_t items, double theta) {
  double sum = 0;
  for (std::uint64_t k = items; k > 0; --k) sum += 1 / std::pow(static_cast<double>(k), theta);
  return sum;
}

// The share of requests for ranks below `k`, over evenly spaced numbers in place of random ones.
double share_below(const zipfian& law, std::uint64_t k) {
  constexpr int numbers = 200'000;
  int below = 0;
  for (int i = 0; i < numbers; ++i) {
    below += law.rank((i + 0.5) / numbers) < k ? 1 : 0;
  }
  return static_cast<double>(below) / numbers;
}

}  // namespace

TEST_CASE("ranks come as often as the law of Zipf says") {
  for (const double theta : {0.5, 0.9, 0.99}) {
    for (const std::uint64_t items : {10U, 1000U, 100'000U}) {
      CAPTURE(theta);
      CAPTURE(items);
      const zipfian law(items, theta);
      const double all = zeta(items, theta);
      CHECK(law.zeta() == doctest::Approx(all));
      // The first two exactly, the others within the error of the approximation.
      CHECK(share_below(law, 1) == doctest::Approx(1 / all).epsilon(1e-3));
      CHECK(share_below(law, 2) == doctest::Approx(zeta(2, theta) / all).epsilon(1e-3));
      for (std::uint64_t k = 3; k < items; k = k * 2 + 1) {
        CAPTURE(k);
        CHECK(std::fabs(share_below(law, k) - zeta(k, theta) / all) < 0.035);
      }
      CHECK(share_below(law, items) == 1);
    }
  }
}

TEST_CASE("every rank is below the number of items, also at the ends") {
  for (const std::uint64_t items : {1U, 2U, 3U, 1000U}) {
    CAPTURE(items);
    const zipfian law(items);
    CHECK(law.rank(0) == 0);
    CHECK(law.rank(1 - 0x1.0p-53) < items);
  }
}

TEST_CASE("a law that has grown is the one of so many items") {
  zipfian grown(10);
  grown.grow(100);
  grown.grow(5000);
  const zipfian made(5000);
  CHECK(grown.items() == 5000);
  CHECK(grown.zeta() == doctest::Approx(made.zeta()));
  for (int i = 0; i < 1000; ++i) CHECK(grown.rank(i / 1000.0) == made.rank(i / 1000.0));
}

TEST_CASE("the sum that YCSB has as a constant is right") {
  // The first million terms, and the integral of the others with its first correction.
  constexpr double theta = zipfian::usual_theta;
  constexpr double head = 1e6;
  const auto tail = [](double n) { return std::pow(n, 1 - theta) / (1 - theta); };
  const double sum = zeta(1'000'000, theta) + tail(static_cast<double>(scrambled_items)) -
                     tail(head) - std::pow(head, -theta) / 2;
  CHECK(scrambled_zeta == doctest::Approx(sum).epsilon(1e-6));
}

TEST_CASE("the record that is wanted most has the same share, however many records there are") {
  for (const std::uint64_t records : {1000U, 100'000U}) {
    CAPTURE(records);
    inserted_records all(records);
    const zipfian law(scrambled_items, zipfian::usual_theta, scrambled_zeta);
    workload w(*find_mix("c"), spread::zipfian, law, all, 7);
    constexpr int asked = 300'000;
    std::map<std::uint64_t, int> counts;
    for (int i = 0; i < asked; ++i) ++counts[w.next().record];
    int most = 0;
    std::uint64_t which = 0;
    for (const auto& [record, n] : counts) {
      if (n > most) which = record;
      most = std::max(most, n);
      REQUIRE(record < records);
    }
    CHECK(which == scrambled(0) % records);
    CHECK(static_cast<double>(most) / asked == doctest::Approx(1 / scrambled_zeta).epsilon(0.05));
  }
}

TEST_CASE("uniform records come all alike") {
  constexpr std::uint64_t records = 100;
  constexpr int each = 2000;
  inserted_records all(records);
  workload w(*find_mix("get"), spread::uniform, zipfian(2), all, 3);
  std::vector<int> counts(records);
  for (std::uint64_t i = 0; i < records * each; ++i) ++counts[w.next().record];
  // Chi squared, of 99 degrees of freedom: above 150 once in 1500 seeds.
  double sum = 0;
  for (const int n : counts) sum += std::pow(n - each, 2) / each;
  CHECK(sum < 150);
}

TEST_CASE("a workload has the mix that it says, and what is latest is what was inserted last") {
  for (const mix& m : mixes) {
    if (m.name == "load") continue;
    CAPTURE(m.name);
    constexpr std::uint64_t records = 1000;
    inserted_records all(records);
    const bool latest = m.records == spread::latest;
    const zipfian law = latest ? zipfian(records) : zipfian(scrambled_items, 0.99, scrambled_zeta);
    workload w(m, m.records, law, all, 11);
    std::array<int, steps> counts{};
    constexpr int asked = 20'000;
    std::uint64_t next = records;
    int newest = 0;
    for (int i = 0; i < asked; ++i) {
      const choice c = w.next();
      ++counts[static_cast<std::size_t>(c.what)];
      if (c.what == step::insert) {
        REQUIRE(c.record == next);
        ++next;
        all.there(c.record);
      } else {
        REQUIRE(c.record < next);
        newest += c.record == next - 1 ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < steps; ++i) {
      CHECK(std::fabs(counts[i] * 100.0 / asked - m.percent[i]) < 1.5);
    }
    if (latest) CHECK(newest > asked / 12);
  }
}

TEST_CASE("a record is read once all before it are there, whoever inserts them in whatever order") {
  inserted_records all(10);
  const std::uint64_t a = all.take();
  const std::uint64_t b = all.take();
  CHECK(all.all_below() == 10);
  all.there(b);
  CHECK(all.all_below() == 10);
  all.there(a);
  CHECK(all.all_below() == 12);

  // All of them are within the window, so a thread may be stopped for any time.
  constexpr std::uint64_t each = 8'000;
  static_assert(4 * 2 * each < inserted_records::window);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::uint64_t first = all.take();
        const std::uint64_t second = all.take();
        all.there(second);
        all.there(first);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(all.all_below() == 12 + 4 * 2 * each);
}

TEST_CASE("keys have 16 bytes and are different; a value says whose it is") {
  CHECK(record_key(0).text() == "user000000000000");
  CHECK(record_key(123).text() == "user000000000123");
  CHECK(record_key(999'999'999'999).text() == "user999999999999");
  for (const std::size_t bytes : {0U, 1U, 7U, 8U, 12U, 64U}) {
    CAPTURE(bytes);
    record_values values(bytes, 5);
    const std::string first(values.next(77));
    CHECK(first.size() == bytes);
    CHECK(record_values::is_of(77, first));
    CHECK(record_values::is_of(78, first) == (bytes == 0));
    if (bytes > 8) CHECK(first != values.next(77));
  }
}
