#include "baseline.hpp"

#include <gnu/libc-version.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "../common.hpp"

namespace instructions {
namespace {

// Describes a difference between the two sides.
std::string unlike(const char* what, const std::string& baseline, const std::string& now) {
  if (baseline == now) return {};
  return std::string(what) + ' ' + baseline + " there and " + now + " here; ";
}

// The text after `key` and a colon in the first such line of the file, or the first line if `key`
// is empty; "unknown" if there is none.
std::string word_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (key.empty()) return line;
    if (line.starts_with(key)) return line.substr(std::min(line.find(": "), line.size() - 2) + 2);
  }
  return "unknown";
}

std::string this_machine() {
  return word_of("/proc/cpuinfo", "vendor_id") + ", clock source " +
         word_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", "");
}

double longer(double before, double now) { return 100 * (now - before) / before; }

}  // namespace

conditions of_this_build(const plan& counted) {
  return {.compiler = CORDMA_COMPILER,
          .build = CORDMA_BUILD_TYPE,
          .c_library = ::gnu_get_libc_version(),
          .machine = this_machine(),
          .counted = counted};
}

std::string difference(const conditions& baseline, const conditions& now) {
  std::string all =
      unlike("compiler", baseline.compiler, now.compiler) +
      unlike("build type", baseline.build, now.build) +
      unlike("C library", baseline.c_library, now.c_library) +
      unlike("machine", baseline.machine, now.machine) +
      unlike("operations of a round", std::to_string(baseline.counted.operations),
             std::to_string(now.counted.operations)) +
      unlike("rounds", std::to_string(baseline.counted.rounds), std::to_string(now.counted.rounds));
  if (all.empty()) return {};
  return "the baseline says nothing about this build: " + all.substr(0, all.size() - 2);
}

figure summary(const std::string& name, const counted& c) {
  const auto [least, most] = std::ranges::minmax(c.each);
  const double sum = std::accumulate(c.each.begin(), c.each.end(), 0.0);
  return {.name = name,
          .median = bench::median(c.each),
          .least = least,
          .most = most,
          .mean = sum / static_cast<double>(c.each.size())};
}

nlohmann::ordered_json to_json(const tally& t) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const figure& f : t.figures) {
    figures[f.name] = {
        {"median", f.median}, {"least", f.least}, {"most", f.most}, {"mean", f.mean}};
  }
  return {{"date", t.date},
          {"commit", t.commit},
          {"compiler", t.under.compiler},
          {"build", t.under.build},
          {"c_library", t.under.c_library},
          {"machine", t.under.machine},
          {"rounds", t.under.counted.rounds},
          {"operations", t.under.counted.operations},
          {"instructions_per_operation", figures}};
}

tally read_tally(const std::string& file) try {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot be read");
  const nlohmann::ordered_json j = nlohmann::ordered_json::parse(in);
  tally t{.date = j.at("date"),
          .commit = j.at("commit"),
          .under = {.compiler = j.at("compiler"),
                    .build = j.at("build"),
                    .c_library = j.at("c_library"),
                    .machine = j.at("machine"),
                    .counted = {.rounds = j.at("rounds"), .operations = j.at("operations")}},
          .figures = {}};
  for (const auto& [name, f] : j.at("instructions_per_operation").items()) {
    t.figures.push_back({.name = name,
                         .median = f.at("median"),
                         .least = f.at("least"),
                         .most = f.at("most"),
                         .mean = f.at("mean")});
  }
  return t;
} catch (const std::exception& e) {
  throw std::runtime_error("the baseline " + file + ": " + e.what());
}

comparison compare(const tally& baseline, const figure& now, double tolerance_percent) {
  const auto found = std::ranges::find(baseline.figures, now.name, &figure::name);
  if (found == baseline.figures.end() || found->median <= 0 || found->mean <= 0) {
    return {};
  }
  comparison c{.is = verdict::same,
               .before = *found,
               .percent = longer(found->median, now.median),
               .mean_percent = longer(found->mean, now.mean)};
  if (c.percent < -tolerance_percent) c.is = verdict::better;
  if (std::max(c.percent, c.mean_percent) > tolerance_percent) c.is = verdict::worse;
  return c;
}

std::vector<std::string> vanished(const tally& baseline, const std::vector<path>& now) {
  std::vector<std::string> names;
  for (const figure& f : baseline.figures) {
    if (std::ranges::find(now, f.name, &path::name) == now.end()) names.push_back(f.name);
  }
  return names;
}

}  // namespace instructions
